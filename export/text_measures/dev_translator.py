"""Translates text with a bundle's own graphs, as the server would, with a progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tqdm import tqdm

from export.bundle import Manifest
from export.graph.runner import GraphRunner
from model.tokenizer import Tokenizer


class DevTranslator:
    """A bundle of one direction, decoding greedily. Not thread-safe.

    Attributes:
        tokenizer: of the bundle.
        limit: most source tokens of a text.
    """

    def __init__(self, runner: GraphRunner, tokenizer: Tokenizer, manifest: Manifest) -> None:
        self.tokenizer = tokenizer
        self.limit = manifest.limits.max_source_tokens
        self._runner = runner
        self._around = manifest.framing(*next(manifest.pairs))

    @classmethod
    def of_bundle(cls, directory: Path, manifest: Manifest, *, threads: int = 1) -> Self:
        """Open a bundle's graphs and tokenizer."""
        runner = GraphRunner.of_bundle(directory, manifest, threads=threads)
        return cls(runner, Tokenizer.load(*manifest.tokenizer.paths(directory)), manifest)

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize source texts as the encoder reads them, prefix and suffix included."""
        prefix, suffix = self._around.source_prefix, self._around.source_suffix
        return [[*prefix, *ids, *suffix] for ids in self.tokenizer.encode_batch(texts)]

    def fitting(self, texts: Sequence[str]) -> list[str]:
        """Leave out texts that are longer than the model takes."""
        rows = self.source_ids(texts)
        return [text for text, row in zip(texts, rows, strict=True) if len(row) <= self.limit]

    def target_ids(self, texts: Sequence[str], what: str) -> list[list[int]]:
        """Translate texts to ids, each as a whole; equal texts are translated once.

        Args:
            texts: none longer than `limit`.
            what: they are, for the progress bar.
        """
        different = list(dict.fromkeys(texts))
        found: dict[str, list[int]] = {}
        with tqdm(desc=what, total=len(different), unit="sentence", leave=False, disable=None) as bar:
            for result in self._runner.greedy(self.source_ids(different)):
                found[different[result.index]] = result.tokens
                bar.update()
        return [found[text] for text in texts]

    def translate(self, texts: Sequence[str], what: str) -> list[str]:
        """Translate texts, each as a whole."""
        return [self.tokenizer.decode(ids) for ids in self.target_ids(texts, what)]
