"""Names of the tensors that a decoder graph keeps its caches in."""

from __future__ import annotations


def updated_cache(name: str) -> str:
    """`self_key_3` -> `self_key_out_3`: the output of a decoder that this input becomes."""
    kind, part, layer = name.split("_")
    return f"{kind}_{part}_out_{layer}"


def written_cache(name: str) -> str:
    """`self_key_3` -> `self_key_written_3`: what a decoder that writes its caches itself has beside it."""
    return updated_cache(name).replace("_out_", "_written_")


def cache_of(output: str) -> str:
    """Give the input that both of these are made of; any other name stays as it is."""
    return output.replace("_out_", "_").replace("_written_", "_")
