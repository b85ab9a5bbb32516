"""The world model of DreamerV2: encoder, RSSM, decoder, heads and loss."""
