"""The live page: datasets and models to prediction at, and worlds to play in, in a browser."""
