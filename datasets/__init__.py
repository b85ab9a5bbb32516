"""Episode datasets: chunked zarr folders that are written safely, read fast and reused."""

if __name__ == "datasets":  # a checkout on sys.path, where this folder shadows another package
    raise ImportError("import this package as wmtk.datasets, not as datasets")

from wmtk.datasets.dataset import ONLINE_CAPACITY, Dataset
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.episode_table import EpisodeTable, select, split
from wmtk.datasets.integrity.repair import RepairReport, repair
from wmtk.datasets.integrity.validate import ValidationReport, validate
from wmtk.datasets.prefetch import Prefetcher
from wmtk.datasets.resize import resize
from wmtk.datasets.sampler import Batch, SequenceSampler, Source
from wmtk.datasets.schema import ALIGNMENT, Schema
from wmtk.datasets.storage.retention import Tag
from wmtk.datasets.summary import Summary, find_datasets, summarize
from wmtk.datasets.transform import all_of, by_provenance, filter_episodes, merge

__all__ = [
    "ALIGNMENT",
    "ONLINE_CAPACITY",
    "Batch",
    "Dataset",
    "Episode",
    "EpisodeTable",
    "Prefetcher",
    "Provenance",
    "RepairReport",
    "Schema",
    "SequenceSampler",
    "Source",
    "Summary",
    "Tag",
    "ValidationReport",
    "all_of",
    "by_provenance",
    "filter_episodes",
    "find_datasets",
    "merge",
    "repair",
    "resize",
    "select",
    "split",
    "summarize",
    "validate",
]
