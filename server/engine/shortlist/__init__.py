"""The optional subset of the output layer that a batch needs."""
