"""Faster versions of operations that `wmtk.models` defines plainly."""
