"""The Typer commands: thin wrappers over public functions."""
