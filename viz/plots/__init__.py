"""Charts: functions of arrays that return a `matplotlib.figure.Figure`."""

from wmtk.errors import MissingDependencyError

try:
    import matplotlib as _matplotlib  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError("matplotlib", "viz", "Drawing a chart") from error
