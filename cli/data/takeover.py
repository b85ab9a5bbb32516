"""`wmtk data takeover`: write to a dataset that another machine held on a network file system."""

from __future__ import annotations

from typing import Any

from wmtk.cli.common.console import confirm
from wmtk.cli.data.dataset_options import DatasetPath, Json, Yes, say
from wmtk.errors import CorruptDatasetError


def take_over(dataset: DatasetPath, yes: Yes = False, json: Json = False) -> None:
    """Write to a dataset that another machine held.

    Over a network file system, one machine at a time may write to a dataset, and gives it back when
    its last writer ends. If it could not, this command does. A writer that is alive after all is
    refused from its next commit on; nothing that it has committed is lost.

    \b
    Example:
      wmtk data takeover shared/pong.zarr
    """
    from wmtk.datasets.storage import atomic, hosts
    from wmtk.datasets.storage.header import read_header

    root = atomic.absolute_path(dataset)
    read_header(root)  # which says what is wrong with the path
    owner, holder = None, ""
    try:
        owner = hosts.owner_of(root)
        if owner is not None:
            holder = f"{owner.host} (process {owner.process}, since {owner.since})"
    except CorruptDatasetError:
        holder = "an unreadable record"
    result: dict[str, Any] = {"path": root, "from": owner.host if owner else None}
    if not holder or (owner is not None and owner.boot == hosts.this_host().boot):
        say(result, f"{dataset} is not held by another machine.", json=json)
        return
    confirm(f"{dataset} is held by {holder}. Has its writer ended?", yes=yes)
    hosts.take_over(root)
    say(result, f"{dataset} can be written to from this machine now.", json=json)
