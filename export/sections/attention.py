"""The manifest's section `attention`: the graph that tells where the decoder looks while it writes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from export.languages import FileName, Part


class Attention(Part):
    """A graph that reads a sentence and its translation, and what of its attention means which word.

    The graph's row t is what the decoder looks at in step t. The step that writes token t is step t, the one
    that reads it is step t + 1; ``shift`` says which of the two links a token to its source.
    """

    graph: FileName
    layer: int = Field(ge=0, description="decoder layer, 0 for the first")
    heads: tuple[int, ...] = Field(min_length=1, description="of the layer; their weights are averaged")
    shift: Literal[0, 1]
    agreement: float = Field(
        ge=0, le=1, description="share of the sure links of the lexicon that it has, too, of single pieces"
    )
    links: int = Field(ge=1, description="sure links of the set")
    set: str
