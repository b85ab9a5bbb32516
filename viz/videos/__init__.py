"""Videos of episodes and rollouts."""
