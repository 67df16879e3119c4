"""Takes out of a trained Transformer the attention heads and feed-forward columns that matter least."""
