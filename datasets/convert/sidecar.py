"""wmtk's metadata in exported files: spaces, seeds, provenance and ends of episodes.

It is stored in an attribute or file that readers of the format ignore, so that an import of the
file restores what the format cannot represent. An import uses it only if it matches the arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from wmtk.datasets.convert.formats import Losses
from wmtk.datasets.convert.untrusted import ForeignDocument, plain
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode, Provenance, ProvenanceRecord
from wmtk.datasets.schema import Schema, SchemaDocument
from wmtk.documents import FreeForm, Items
from wmtk.errors import ConversionError, SpaceError

KEY = "wmtk"
VERSION = 1
MISMATCH = (
    "The metadata of wmtk in the source does not match its arrays (another program edited the "
    "file): its spaces, seeds and provenance were ignored."
)


@dataclass
class EpisodeRecords:
    """Metadata of each episode that flat formats have no column for."""

    lengths: list[int] = field(default_factory=list)
    seeds: list[int | None] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # 1 terminated, 2 truncated, 3 both, 0 neither
    provenances: list[dict[str, Any]] = field(default_factory=list)  # each different one
    provenance_of: list[int] = field(default_factory=list)  # index into them
    _index: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, episode: Episode) -> None:
        provenance = episode.provenance.to_json()
        text = json.dumps(provenance, sort_keys=True)
        if text not in self._index:
            self._index[text] = len(self.provenances)
            self.provenances.append(provenance)
        self.lengths.append(episode.length)
        self.seeds.append(episode.seed)
        self.ends.append(episode.terminated + 2 * episode.truncated)
        self.provenance_of.append(self._index[text])

    def to_json(self) -> dict[str, Any]:
        return {
            "lengths": self.lengths,
            "seeds": self.seeds,
            "ends": self.ends,
            "makers": self.provenances,
            "made_by": self.provenance_of,
        }

    def fits(self, lengths: Sequence[int]) -> bool:
        counts = {len(self.seeds), len(self.ends), len(self.provenance_of), len(self.lengths)}
        in_range = all(0 <= number < len(self.provenances) for number in self.provenance_of)
        return counts == {len(lengths)} and in_range and self.lengths == list(lengths)

    def provenance(self, number: int) -> Provenance:
        return Provenance.from_json(self.provenances[self.provenance_of[number]])


@dataclass(frozen=True)
class Sidecar:
    """The metadata of a dataset; `episodes` is None if the format stores it per episode."""

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
        hint = "Remove the metadata to import the file without it, or export the dataset again."
        version = data.get("version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise ConversionError(
                f"{path} was exported by a newer wmtk.", "Update wmtk to import it.", path
            )
        document = SidecarDocument.read(plain(data), path, hint)
        try:
            schema = document.schema_.value()
        except SpaceError as error:
            message = f"{path} has damaged metadata of wmtk: {error.message}"
            raise ConversionError(message, hint, path) from error
        records = None if document.episodes is None else document.episodes.value()
        return cls(schema, document.env, document.attributes, records)

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
        """The metadata, if present and matching the lengths and arrays of the episodes.

        `rename` maps an observation key to its name in the format.
        """
        if data is None:
            return None
        sidecar = cls.from_json(data, path)
        records = sidecar.episodes
        fits = records is not None and records.fits(lengths)
        if not fits or not describes(sidecar.schema, schema, rename):
            losses.note(MISMATCH)
            return None
        return sidecar


def describes(declared: Schema, actual: Schema, rename: Callable[[str], str] = str) -> bool:
    """Whether a declared schema has the keys and shapes of the actual one."""
    obs = {rename(key): spec.shape for key, spec in declared.obs.items()}
    actual_obs = {key: spec.shape for key, spec in actual.obs.items()}
    infos = {key: spec.shape for key, spec in declared.info.items()}
    return (
        len(declared.obs) == len(actual.obs)
        and obs == actual_obs
        and infos == {key: spec.shape for key, spec in actual.info.items()}
    )


class RecordsDocument(ForeignDocument):
    """The stored form of `EpisodeRecords`."""

    lengths: Items[int]
    seeds: Items[int | None]
    ends: Items[Annotated[int, Field(ge=0, le=3)]]
    makers: Items[ProvenanceRecord]
    made_by: Items[int]

    def value(self) -> EpisodeRecords:
        return EpisodeRecords(
            lengths=list(self.lengths),
            seeds=list(self.seeds),
            ends=list(self.ends),
            provenances=[record.model_dump() for record in self.makers],
            provenance_of=list(self.made_by),
        )


class SidecarDocument(ForeignDocument):
    """The stored form of `Sidecar`."""

    version: int
    schema_: SchemaDocument = Field(alias="schema")
    env: FreeForm
    attributes: FreeForm
    episodes: RecordsDocument | None = None


class EpisodeOrigin(ForeignDocument):
    """Seed and provenance of one episode, for formats with attributes per episode."""

    seed: int | None
    provenance: ProvenanceRecord
