"""A trained model in use: NumPy arrays in, NumPy arrays out."""
