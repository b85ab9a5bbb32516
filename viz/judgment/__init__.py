"""The verdict on a world model."""
