"""Environments: the embedded ones and the adapters to Atari, dm_control and gymnasium."""
