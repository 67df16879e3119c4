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
        target_prefix: ids that every translation is made to begin with.
    """

    def __init__(self, runner: GraphRunner, tokenizer: Tokenizer, manifest: Manifest) -> None:
        self.tokenizer = tokenizer
        self.limit = manifest.limits.max_source_tokens
        self._runner = runner
        self._around = manifest.framing(*next(manifest.pairs))
        self.target_prefix = self._around.target_prefix

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
        """Translate texts to ids, `target_prefix` included, each as a whole; equal ones are translated once.

        Args:
            texts: none longer than `limit`.
            what: they are, for the progress bar.
        """
        different = list(dict.fromkeys(texts))
        found: dict[str, list[int]] = {}
        with tqdm(desc=what, total=len(different), unit="sentence", leave=False, disable=None) as bar:
            prefixes = [self.target_prefix] * len(different)
            for result in self._runner.greedy(self.source_ids(different), prefixes=prefixes):
                found[different[result.index]] = result.tokens
                bar.update()
        return [found[text] for text in texts]

    def scored_ids(self, texts: Sequence[str], what: str) -> list[tuple[list[int], list[float]]]:
        """Translate texts as `target_ids` does, with the natural-log probability of every token.

        Args:
            texts: none longer than `limit`.
            what: they are, for the progress bar.

        Returns:
            For each its ids without the end token, and the log-probabilities of these and of the end token,
            if there is one; 0 of `target_prefix`, as the server has it.
        """
        found: list[tuple[list[int], list[float]]] = [([], [])] * len(texts)
        with tqdm(desc=what, total=len(texts), unit="sentence", leave=False, disable=None) as bar:
            prefixes = [self.target_prefix] * len(texts)
            for result in self._runner.greedy(self.source_ids(texts), prefixes=prefixes, scored=True):
                found[result.index] = result.tokens, result.logs
                bar.update()
        return found

    def translate(self, texts: Sequence[str], what: str) -> list[str]:
        """Translate texts, each as a whole."""
        return [self.tokenizer.decode(ids) for ids in self.target_ids(texts, what)]
