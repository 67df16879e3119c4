"""Takes out of a trained Transformer the attention heads, columns and words that matter least."""
