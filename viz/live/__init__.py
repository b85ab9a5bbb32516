"""The live page: datasets and models to look at, and worlds to play in, in a browser."""
