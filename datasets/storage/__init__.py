"""Files of a dataset: commit log, parts, shards, locks, retention."""
