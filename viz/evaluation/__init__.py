"""Metrics of a world model on recorded windows, and the verdict on it."""
