"""The training stages: a dataset in, a run directory with a trained model out."""
