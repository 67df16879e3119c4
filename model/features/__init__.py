"""Sources that are sequences of feature vectors: how files and requests hold them."""
