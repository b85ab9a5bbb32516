"""Find and repair damage in a dataset."""
