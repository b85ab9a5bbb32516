"""Still images of episodes and rollouts."""
