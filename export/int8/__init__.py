"""Quantization to int8 and the graph rewrites that go with it."""
