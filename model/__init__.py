"""Defines and trains the encoder-decoder Transformer (PyTorch)."""
