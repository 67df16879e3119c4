"""Decoder graphs that make several steps in one run."""
