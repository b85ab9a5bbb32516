"""Training of world models and policies: `train_model`, `train_policy` and `online`."""

from wmtk.agent import require_packages

require_packages("Training")
