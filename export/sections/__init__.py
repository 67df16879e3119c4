"""Sections of the manifest, each a leaf: pydantic and the standard library only."""
