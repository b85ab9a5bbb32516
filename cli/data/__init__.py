"""The commands of `wmtk data`."""
