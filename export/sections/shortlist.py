"""Section ``shortlist`` of a manifest: candidate words of every sentence. A leaf, as `export.manifest` is."""

from __future__ import annotations

from pydantic import Field

from export.languages import BeamWidth, Count, FileName, Part


class Shortlist(Part):
    """Candidate words of every sentence: what decoding over them needs, and what it costs.

    ``decoders`` have a graph for each beam width that ``graphs.decoders`` has one for.
    """

    table: FileName
    columns: FileName
    decoders: dict[BeamWidth, FileName]
    origin: str = Field(description="text that the table was learnt from, or the vocabulary map")
    per_piece: Count | None = Field(description="most candidates of a source piece; None for a map")
    frequent: int | None = Field(description="most frequent target pieces, always candidates; None for a map")
    mean_candidates: float = Field(gt=0, description="of a sentence of the set")
    set: str
    sentences: int = Field(ge=0)
    bleu_all: float = Field(description="greedy, over the whole vocabulary")
    bleu: float
    bleu_loss: float
    loss_accepted_by_flag: bool = False
