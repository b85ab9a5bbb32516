"""The error classes of wmtk. A message names the problem and the value; `hint` the remedy."""

from __future__ import annotations

from pathlib import Path

# Exceptions of foreign code: environments and policies may also call sys.exit().
FOREIGN = (Exception, SystemExit)


class WmtkError(Exception):
    """Base class of all errors of wmtk; `hint` is the suggested remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(WmtkError):
    """An invalid argument; the command line exits with code 2."""


class MissingDependencyError(WmtkError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package '{package}', which is not installed.",
            f"Install it with: pip install 'wmtk[{extra}]'",
        )
        self.package = package
        self.extra = extra


class SpaceError(WmtkError):
    """A Gymnasium space that is not supported."""


class DatasetError(WmtkError):
    """Base class of the errors of episode datasets; `path` is the affected file or folder."""

    def __init__(self, message: str, hint: str = "", path: Path | None = None) -> None:
        super().__init__(message, hint)
        self.path = path


class NotADatasetError(DatasetError):
    """The path is not a wmtk dataset: missing, another zarr hierarchy, or zarr v2."""


class FormatVersionError(DatasetError):
    """The dataset has a newer format version than this version of wmtk reads."""


class CorruptDatasetError(DatasetError):
    """A file of the dataset is missing, truncated or modified."""


class EvictedError(DatasetError):
    """A part of the opened snapshot was evicted; `refresh()` opens the current version."""


class EpisodeError(DatasetError):
    """An episode that does not match the dataset's schema; it is not written."""


class BoundsError(EpisodeError):
    """An action or observation outside of the bounds of its space.

    `key` is the path of the array, such as "action" or "obs/state".
    """

    def __init__(
        self, message: str, hint: str = "", path: Path | None = None, key: str = ""
    ) -> None:
        super().__init__(message, hint, path)
        self.key = key


class SchemaMismatchError(DatasetError):
    """Two datasets, or a dataset and a model, with different spaces."""


class ReadOnlyError(DatasetError):
    """A write to a dataset that is opened for reading or on a read-only medium."""


class StorageFullError(DatasetError):
    """The disk is full; committed episodes are intact."""


class StorageError(DatasetError):
    """The folder or its storage is missing or fails; committed episodes are intact."""


class OtherHostError(DatasetError):
    """Another machine writes to the dataset over a network file system."""


class TagError(DatasetError):
    """A tag that does not exist, already exists, or has an invalid name."""


class ConversionError(DatasetError):
    """A file of another format that cannot be imported, or a dataset that cannot be exported."""


class ScoreError(WmtkError):
    """An invalid score, game or file of scores."""


class TaskError(UsageError):
    """An unknown task, or an unknown or invalid option of a task."""


class UntrustedEnvError(UsageError):
    """A file names an environment whose code is not trusted to run."""


class EnvCreationError(WmtkError):
    """An environment exists, but its construction failed."""


class RenderingError(EnvCreationError):
    """The simulator cannot render on this machine: no usable OpenGL backend."""


class EnvironmentFailedError(WmtkError):
    """An environment failed repeatedly: exceptions, timeouts or invalid return values."""


class EnvironmentApiError(EnvironmentFailedError):
    """An environment violates the API of gymnasium.Env."""


class ConfigError(UsageError):
    """Unknown or invalid settings."""


class CheckpointError(WmtkError):
    """A checkpoint that is missing or damaged."""


class RunError(WmtkError):
    """A run directory that already exists, is not one, or does not suit the operation."""


class FormerRunError(RunError):
    """A run directory of an earlier format, which `wmtk convert` converts."""


class DivergedError(WmtkError):
    """Training diverged: numbers that are not finite, or a sudden increase of the loss."""


class MemoryExhaustedError(WmtkError):
    """A batch exceeds the available memory."""
