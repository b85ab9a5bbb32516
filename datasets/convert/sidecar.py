"""wmtk's own description of a dataset, put where a foreign format has room for a comment.

It keeps what the format itself has no place for (spaces, seeds, provenance, how episodes ended),
so that a way back loses only what `losses` names. Readers of the format never see it, and an
import uses it only if it fits the arrays that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmtk.datasets.convert.foreign import plain
from wmtk.datasets.convert.format import Losses
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, SpaceError

KEY = "wmtk"
VERSION = 1
MISMATCH = (
    "The wmtk description in the source does not fit its arrays (it was edited by another "
    "program): spaces, seeds and provenance in it were ignored."
)


@dataclass
class EpisodeRecords:
    """Per episode, what flat formats have no column for."""

    lengths: list[int] = field(default_factory=list)
    seeds: list[int | None] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # 1 terminated, 2 truncated, 3 both, 0 cut
    makers: list[dict[str, Any]] = field(default_factory=list)
    made_by: list[int] = field(default_factory=list)  # index into makers
    _index: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, episode: Episode) -> None:
        maker = episode.provenance.to_json()
        text = json.dumps(maker, sort_keys=True)
        if text not in self._index:
            self._index[text] = len(self.makers)
            self.makers.append(maker)
        self.lengths.append(episode.length)
        self.seeds.append(episode.seed)
        self.ends.append(episode.terminated + 2 * episode.truncated)
        self.made_by.append(self._index[text])

    def to_json(self) -> dict[str, Any]:
        return {
            "lengths": self.lengths,
            "seeds": self.seeds,
            "ends": self.ends,
            "makers": self.makers,
            "made_by": self.made_by,
        }

    def fits(self, lengths: Sequence[int]) -> bool:
        counts = {len(self.seeds), len(self.ends), len(self.made_by), len(self.lengths)}
        in_range = all(0 <= number < len(self.makers) for number in self.made_by)
        return counts == {len(lengths)} and in_range and self.lengths == list(lengths)

    def provenance(self, number: int) -> Provenance:
        return Provenance.from_json(self.makers[self.made_by[number]])


@dataclass(frozen=True)
class Sidecar:
    """The description of a whole dataset; `episodes` only where they have no place of their own."""

    schema: Schema
    env: dict[str, Any]
    attributes: dict[str, Any]
    episodes: EpisodeRecords | None = None

    @classmethod
    def of(cls, dataset: Dataset, episodes: EpisodeRecords | None = None) -> Sidecar:
        attributes = dict(dataset.header["attributes"])
        return cls(dataset.schema, dict(dataset.env), attributes, episodes)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "schema": self.schema.to_json(),
            "env": self.env,
            "attributes": self.attributes,
            **({} if self.episodes is None else {"episodes": self.episodes.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Any, path: Path) -> Sidecar:
        try:
            if data["version"] > VERSION:
                raise ConversionError(
                    f"{path} was exported by a newer wmtk.", "Update wmtk to import it.", path
                )
            records = data.get("episodes")
            episodes = None if records is None else EpisodeRecords(**_columns(records))
            schema = Schema.from_json(data["schema"])
            env, attributes = plain(dict(data["env"])), plain(dict(data["attributes"]))
            return cls(schema, env, attributes, episodes)
        except (KeyError, TypeError, ValueError, AttributeError, SpaceError) as error:
            raise ConversionError(
                f"{path} holds a damaged wmtk description ({error!r}).",
                "Remove it to import the file without, or export the dataset again.",
                path,
            ) from error

    @classmethod
    def matching(
        cls,
        data: Any,
        path: Path,
        losses: Losses,
        lengths: Sequence[int],
        schema: Schema,
        rename: Callable[[str], str] = str,
    ) -> Sidecar | None:
        """The description, if there is one and it fits episodes of these lengths and arrays.

        `rename` gives the name that the format has for an observation key.
        """
        if data is None:
            return None
        found = cls.from_json(data, path)
        records = found.episodes
        fits = records is not None and records.fits(lengths)
        if not fits or not describes(found.schema, schema, rename):
            losses.note(MISMATCH)
            return None
        return found


def describes(declared: Schema, found: Schema, rename: Callable[[str], str] = str) -> bool:
    """Whether a described schema has the keys and shapes that were found."""
    ours = {rename(key): spec.shape for key, spec in declared.obs.items()}
    theirs = {key: spec.shape for key, spec in found.obs.items()}
    infos = {key: spec.shape for key, spec in declared.info.items()}
    return (
        len(declared.obs) == len(found.obs)
        and ours == theirs
        and infos == {key: spec.shape for key, spec in found.info.items()}
    )


def _columns(data: Any) -> dict[str, Any]:
    lengths = [int(value) for value in data["lengths"]]
    seeds = [None if value is None else int(value) for value in data["seeds"]]
    ends = [int(value) for value in data["ends"]]
    makers = [checked_maker(maker) for maker in data["makers"]]
    made_by = [int(value) for value in data["made_by"]]
    return {
        "lengths": lengths,
        "seeds": seeds,
        "ends": ends,
        "makers": makers,
        "made_by": made_by,
    }


def checked_maker(maker: Any) -> dict[str, Any]:
    """A provenance record whose fields have the types that they should have."""
    known = Provenance().to_json()
    found = {key: plain(value) for key, value in dict(maker).items() if key in known}
    if any(type(value) is not type(known[key]) for key, value in found.items()):
        raise ValueError("a provenance record of the wrong types")
    return found
