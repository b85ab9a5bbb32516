"""The commands of `wmtk viz`."""
