"""Schemas of the documents that wmtk reads back from disk.

Each JSON or YAML document has one `Document` subclass. A checksum shows that a file is the one that
was written; the schema shows that its content makes sense. Code that reads a document relies on
the schema and checks nothing again.
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
Text = InstanceOf[str]  # free text, which may hold characters that UTF-8 has no bytes for


def check_depth(value: Any) -> Any:
    """Refuse nesting that would exhaust the stack of whatever walks the value later."""
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


FreeForm = Annotated[dict[str, Any], AfterValidator(check_depth)]  # a JSON object of any content


class Document(BaseModel):
    """Base of all document schemas: strict types (no `1.5` or `true` for an integer), frozen.

    Unknown fields are ignored, so that older code reads what newer code adds.
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
        """The error for a file that does not hold such a document; subclasses choose its class."""
        return CorruptDatasetError(message, hint, path)


def problems(error: ValidationError | RecursionError) -> str:
    """The first few validation errors on one line, without the values, which may be large."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply."
    found = [
        f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" (and {len(found) - MAX_PROBLEMS} more)" if len(found) > MAX_PROBLEMS else ""
    return "; ".join(found[:MAX_PROBLEMS]) + more + "."
