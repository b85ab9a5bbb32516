"""Episode datasets: chunked zarr folders that are written safely, read fast and reused."""

if __name__ == "datasets":  # a checkout on sys.path, where this folder shadows another package
    raise ImportError("import this package as wmtk.datasets, not as datasets")

from wmtk.datasets.dataset import ONLINE_CAPACITY, Dataset
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.prefetch import Prefetcher
from wmtk.datasets.retention import Tag
from wmtk.datasets.sampler import Batch, SequenceSampler, Source
from wmtk.datasets.schema import ALIGNMENT, Schema
from wmtk.datasets.table import EpisodeTable, select, split

__all__ = [
    "ALIGNMENT",
    "ONLINE_CAPACITY",
    "Batch",
    "Dataset",
    "Episode",
    "EpisodeTable",
    "Prefetcher",
    "Provenance",
    "Schema",
    "SequenceSampler",
    "Source",
    "Tag",
    "select",
    "split",
]
