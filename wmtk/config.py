"""Settings: frozen, typed, and with an answer to every misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from wmtk.errors import ConfigError


class Config(BaseModel):
    """Base of all settings; they stand beside the class that they configure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """The settings from plain data, with errors that a user can act on."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(*_explain(cls, error)) from error

    def changed(self, overrides: Mapping[str, Any]) -> Self:
        """These settings with some of them replaced, by dotted name: {"rssm.deter": 200}."""
        values = self.model_dump()
        for name, value in overrides.items():
            *parents, last = name.split(".")
            inner = values
            for depth, parent in enumerate(parents):
                if not isinstance(inner.get(parent), dict):
                    raise _unknown(".".join(parents[: depth + 1]), inner)
                inner = inner[parent]
            if last not in inner:
                raise _unknown(name, inner)
            inner[last] = value
        return type(self).build(values)


def _unknown(name: str, known: Mapping[str, Any]) -> ConfigError:
    last = name.rpartition(".")[2]
    close = difflib.get_close_matches(last, list(known), n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return ConfigError(
        f"There is no setting {name!r}.", f"{hint}Settings there: {', '.join(known)}."
    )


def _explain(cls: type[Config], error: ValidationError) -> tuple[str, str]:
    lines = []
    for problem in error.errors():
        where = ".".join(map(str, problem["loc"]))
        lines.append(f"  {where} = {problem['input']!r}: {problem['msg']}")
    return f"These settings of {cls.__name__} make no sense:\n" + "\n".join(lines), (
        "Correct them in the file or in --set name=value."
    )
