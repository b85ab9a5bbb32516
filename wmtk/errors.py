"""The errors that a user can meet: what is wrong, with which value, and what to do next."""

from __future__ import annotations

from pathlib import Path

# What the code of others may raise: environments and policies also call sys.exit().
FOREIGN = (Exception, SystemExit)


class WmtkError(Exception):
    """Base of every error that wmtk raises for a user; `hint` says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(WmtkError):
    """A value that was asked for makes no sense; exit code 2."""


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
    """A gymnasium space that wmtk cannot store or act in."""


class DatasetError(WmtkError):
    """Base of what can go wrong with an episode dataset; `path` is the file or folder at fault."""

    def __init__(self, message: str, hint: str = "", path: Path | None = None) -> None:
        super().__init__(message, hint)
        self.path = path


class NotADatasetError(DatasetError):
    """The path holds no wmtk dataset (nothing, a foreign zarr, or zarr v2)."""


class FormatVersionError(DatasetError):
    """The dataset was written by a newer format version than this code reads."""


class CorruptDatasetError(DatasetError):
    """A file of the dataset is missing, truncated or altered."""


class EvictedError(DatasetError):
    """A part of the snapshot has been evicted since; `refresh()` gives the current version."""


class EpisodeError(DatasetError):
    """An episode that does not fit the dataset's schema; it was not written."""


class BoundsError(EpisodeError):
    """An episode with an action or observation beyond the bounds that its space declares.

    `key` is the array's path, such as "action" or "obs/state".
    """

    def __init__(
        self, message: str, hint: str = "", path: Path | None = None, key: str = ""
    ) -> None:
        super().__init__(message, hint, path)
        self.key = key


class SchemaMismatchError(DatasetError):
    """Two datasets (or a dataset and a model) whose spaces differ."""


class ReadOnlyError(DatasetError):
    """A write to a dataset that was opened for reading or lies on a read-only medium."""


class StorageFullError(DatasetError):
    """The disk is full; what was acknowledged before is intact."""


class StorageError(DatasetError):
    """The folder or the storage below it is gone or fails; what was acknowledged is intact."""


class OtherHostError(DatasetError):
    """Another machine writes to the dataset, over a network file system."""


class TagError(DatasetError):
    """A tag that does not exist, exists already, or has an unusable name."""


class ConversionError(DatasetError):
    """A foreign file that cannot be read, or a dataset that a foreign format cannot hold."""


class TaskError(UsageError):
    """A task or an option of a task that does not exist or makes no sense."""


class UntrustedEnvError(UsageError):
    """A file names an environment whose code would run, and the user has not allowed it."""


class EnvCreationError(WmtkError):
    """An environment exists, but could not be built."""


class RenderingError(EnvCreationError):
    """The simulator cannot draw on this machine: no usable OpenGL backend."""


class EnvironmentFailedError(WmtkError):
    """An environment raised, hung or returned nonsense again and again."""


class ConfigError(UsageError):
    """Settings that do not exist or make no sense."""


class CheckpointError(WmtkError):
    """A checkpoint that is missing or damaged."""


class RunError(WmtkError):
    """A run directory that exists already, is none, or does not fit what is asked of it."""


class DivergedError(WmtkError):
    """Training produced numbers that are not finite, or a loss that jumped."""


class MemoryExhaustedError(WmtkError):
    """A batch that takes more memory than there is."""
