"""The training stages: a dataset in, a run directory with a trained model out."""

from wmtk.agent import require_packages

require_packages("Training")
