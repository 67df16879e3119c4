"""How a bundle becomes a running model."""
