"""The live page: datasets, models and interactive imagination in a browser."""
