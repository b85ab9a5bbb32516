"""Schemas of the JSON and YAML documents that wmtk reads from disk.

Each kind of document is a subclass of `Document`. A checksum verifies that a file is unchanged;
the schema verifies its content, so that code which uses a document makes no further checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from wmtk.errors import CorruptDatasetError, WmtkError

MAX_PROBLEMS = 3  # listed in an error message
MAX_DEPTH = 64  # of free-form JSON
T = TypeVar("T")
Items = Annotated[tuple[T, ...], Field(strict=False)]  # a JSON list
Text = InstanceOf[str]  # any text, also with characters that UTF-8 cannot encode


def check_depth(value: Any) -> Any:
    """Raise ValueError for values nested too deeply for recursive functions."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [child for node in level for child in _children(node)]
        if not inner:
            return value
        level = inner
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


FreeForm = Annotated[dict[str, Any], AfterValidator(check_depth)]  # any JSON object


class Document(BaseModel):
    """Base class of document schemas: frozen, with strict types (integers are not `1.5` or `true`).

    Unknown fields are ignored, so that newer versions may add fields.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def read(cls, content: Any, path: Path, hint: str = "") -> Self:
        """Validate parsed JSON; `path` names the file in the error."""
        try:
            return cls.model_validate(content)
        except (ValidationError, RecursionError) as error:
            message = f"{path} is not a valid {cls.__name__}: {problems(error)}"
            raise cls.corrupt(message, hint, path) from error

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        """The error for an invalid document; subclasses override its class."""
        return CorruptDatasetError(message, hint, path)


def problems(error: ValidationError | RecursionError) -> str:
    """The first few validation errors on one line, without the invalid values."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply."
    lines = [
        f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" (and {len(lines) - MAX_PROBLEMS} more)" if len(lines) > MAX_PROBLEMS else ""
    return "; ".join(lines[:MAX_PROBLEMS]) + more + "."
