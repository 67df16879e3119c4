"""Runs exported graphs, simply: the exporter's own judge of what it wrote. The server has its own engine.

Shapes: N sentences, K beams, R = N*K rows, S source capacity, P cache capacity, H heads, D head size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.bundle import Manifest
from export.graph.cache_names import cache_of, updated_cache

Tokens = Sequence[int]
Source = Sequence[int] | NDArray[np.float32]
"""Ids as the encoder reads them, or features [length, F]."""

Chooser = Callable[[int, NDArray[np.float32]], NDArray[np.int64] | None]
"""Given the position and logits [R, V], returns the next tokens [R], or None to stop."""
Observer = Callable[[str, NDArray[np.float32], NDArray[np.bool_]], None]
"""Given a tensor's name, its values [rows, T, E], [rows, E] or of real tokens alone, and which of [rows, T]
or [rows] are real."""
Masks = Callable[[Sequence[int]], NDArray[np.float32]]
"""Given the indices of R sentences, returns what is added to their logits [R, V]."""

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded sentence: its index in the input, tokens without the end token, whether that came.

    If it is scored, ``logs`` has natural-log probabilities, also of the end token if there is one.
    """

    index: int
    tokens: list[int]
    finished: bool
    logs: list[float] = field(default_factory=list)


def open_session(graph: Path | bytes, threads: int = 1) -> onnxruntime.InferenceSession:
    """Open a graph as the server does: on the CPU, without the fusion that slows it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    source = str(graph) if isinstance(graph, Path) else graph
    return onnxruntime.InferenceSession(
        source, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
    )


class GraphRunner:
    """An encoder and one decoder graph. Not thread-safe.

    Attributes:
        suppressed_ids: tokens that ``greedy`` never takes.
    """

    def __init__(
        self,
        encoder: Path | bytes,
        decoder: Path | bytes,
        *,
        start_id: int,
        eos_id: int,
        pad_id: int,
        beam_width: int = 1,
        threads: int = 1,
        suppressed_ids: Sequence[int] = (),
        max_positions: int | None = None,
    ) -> None:
        self.suppressed_ids = list(suppressed_ids)
        self._encoder = open_session(encoder, threads)
        self._decoder = open_session(decoder, threads)
        self._start_id, self._eos_id, self._pad_id = start_id, eos_id, pad_id
        self._beams = beam_width
        self._max_positions = max_positions
        inputs = {entry.name: entry for entry in self._decoder.get_inputs()}
        # Of all self-attention caches, or recurrent states, the shape but for the rows; P is no number.
        self._own = {
            name: (entry.shape[1:], _TYPES[entry.type])
            for name, entry in inputs.items()
            if name.startswith(("self_key_", "self_value_", "self_state_"))
        }
        self._layers = sum(name.startswith("cross_key_") for name in inputs)
        self._appends = "cross_last_key_0" in inputs
        logits = next(entry for entry in self._decoder.get_outputs() if entry.name == "logits")
        self._vocabulary_size = int(logits.shape[-1])

    @classmethod
    def of_bundle(cls, directory: Path, manifest: Manifest, *, threads: int = 1) -> Self:
        """Open the graphs of beam width 1 of a bundle."""
        special = manifest.special_tokens
        return cls(
            directory / manifest.graphs.encoder,
            directory / manifest.graphs.decoders["1"],
            start_id=special.decoder_start_id,
            eos_id=special.eos_id,
            pad_id=special.pad_id,
            threads=threads,
            suppressed_ids=special.suppressed_ids,
            max_positions=manifest.limits.max_target_tokens,
        )

    def greedy(
        self,
        sources: Sequence[Source],
        batch_rows: int = 64,
        prefixes: Sequence[Tokens] = (),
        *,
        masks: Masks | None = None,
        scored: bool = False,
        observe: tuple[Observer | None, Observer | None] = (None, None),
    ) -> Iterator[Decoded]:
        """Decode sentences greedily, longest together with longest.

        Args:
            sources: ids of each sentence, prefix and suffix included.
            batch_rows: sentences decoded at a time.
            prefixes: what each sentence's target begins with, whatever is probable; empty for nothing.
            masks: gives what is added to the logits of a batch; None for nothing.
            scored: whether the probabilities of the tokens are wanted; that of a prefix is 1.
            observe: ``observe_encoder`` and ``observe_decoder`` of ``run``.

        Yields:
            Results in no particular order.
        """
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        for start in range(0, len(order), batch_rows):
            chosen = order[start : start + batch_rows]
            batch = [sources[i] for i in chosen]
            begins = [prefixes[i] for i in chosen] if prefixes else []
            table, logs = self._greedy_tables(batch, begins, masks and masks(chosen), scored, observe)
            for row, index in enumerate(chosen):
                ids = table[row * self._beams].tolist()
                finished = self._eos_id in ids
                length = ids.index(self._eos_id) if finished else len(ids)
                own_logs = logs[row * self._beams, : length + 1].tolist() if scored else []
                yield Decoded(index, ids[:length], finished, own_logs)

    def longest_target(self, sources: Sequence[Source]) -> int:
        """Most steps granted when judging graphs: ample for a translation, tight for a loop.

        A target of so many tokens still fits into the model's positions behind the start token.
        """
        ample = max(len(source) for source in sources) * 2 + 10
        return ample if self._max_positions is None else min(ample, self._max_positions - 1)

    def _greedy_tables(
        self,
        batch: Sequence[Source],
        prefixes: Sequence[Tokens],
        mask: NDArray[np.float32] | None,
        scored: bool,
        observe: tuple[Observer | None, Observer | None],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Decode one batch; gives tokens [R, T] and their log-probabilities, 0 if not ``scored``."""
        steps, rows = self.longest_target(batch), len(batch) * self._beams
        taken: list[NDArray[np.int64]] = []
        logs: list[NDArray[np.float32]] = []
        done = np.zeros(rows, bool)

        def choose(position: int, logits: NDArray[np.float32]) -> NDArray[np.int64] | None:
            logits[:, self.suppressed_ids] = -np.inf
            if mask is not None:
                logits += mask
            best, own_logs = logits.argmax(axis=1), np.zeros(rows, np.float32)
            if scored:
                own_logs = -np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
            for row, prefix in enumerate(prefixes):
                if position < len(prefix):
                    own = slice(row * self._beams, (row + 1) * self._beams)
                    best[own], own_logs[own] = prefix[position], 0
            taken.append(best)
            logs.append(own_logs)
            np.logical_or(done, best == self._eos_id, out=done)
            return None if done.all() or position + 1 == steps else best

        self.run(batch, steps, choose, *observe)
        return np.stack(taken, axis=1), np.stack(logs, axis=1)

    def until_one_ends(
        self,
        sources: Sequence[Source],
        steps: int,
        multi_step: onnxruntime.InferenceSession | None = None,
        most: int = 1,
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """Decode a few sentences greedily, until the first of them has its end token.

        Args:
            sources: ids of N sentences, prefix and suffix included.
            steps: after which it ends.
            multi_step: the multi-step graph, which then makes the steps; None steps the decoder.
            most: steps of a run.

        Returns:
            The tokens [T, N], and what the self-attention caches hold of them.
        """
        lengths, count = np.array([len(source) for source in sources], np.int32), len(sources)
        state = self._start(self.encode(sources), lengths, count, steps)
        caches = [name for name in state if name.startswith("self_") and state[name].ndim == 4]
        updated = [updated_cache(name) for name in caches]
        bans = np.zeros(self._vocabulary_size, np.float32)
        bans[self.suppressed_ids] = -np.inf
        own = {"stop": np.array(0), "end_id": np.array(self._eos_id), "bans": bans}
        tokens: list[NDArray[np.int64]] = []
        while len(tokens) < steps and not (tokens and (tokens[-1] == self._eos_id).any()):
            done = len(tokens)
            state["positions"][:] = state["self_lengths"][:] = done
            state["self_total"][()] = done + 1
            if multi_step is None:
                logits, _ = self._step(state, count)
                tokens.append((logits + bans).argmax(axis=1))
            else:
                feeds = {**state, **own, "steps": np.array(min(most, steps - done))}
                made, *filled = multi_step.run(["tokens", *updated], feeds)
                tokens += list(made[:, :, 0])
                state.update(zip(caches, filled, strict=True))
            state["input_ids"][:, 0] = tokens[-1]
        return np.stack(tokens), [state[name][:, :, : len(tokens)] for name in caches]

    def agrees_in_beams(
        self, sources: Sequence[Source], steps: int, multi_step: onnxruntime.InferenceSession
    ) -> bool:
        """Tell whether multi-step beam search is what this decoder and a search on its scores would do.

        Every step is made once more, with the words that it chose: the caches must be the same bit by
        bit, and the candidates as probable as the most probable words are here.

        Args:
            sources: N sentences, decoded together.
            steps: of the run; how many hypotheses end meanwhile does not matter.
            multi_step: the multi-step graph of this beam width.
        """
        count, beams = len(sources), self._beams
        lengths = np.array([len(source) for source in sources], np.int32)
        state = self._start(self.encode(sources), lengths, count * beams, steps)
        caches = [name for name in state if name.startswith("self_") and state[name].ndim == 4]
        bans = np.zeros(self._vocabulary_size, np.float32)
        bans[self.suppressed_ids] = -np.inf
        scores = np.full((count * beams, 1), -np.inf)
        scores[::beams] = 0.0
        first_rows = np.arange(0, count * beams, beams)[:, None]
        names = ["offers", "tokens", "totals", "chosen", *map(updated_cache, caches)]
        limits = {"steps": np.array(steps), "stop": np.array(0), "room": np.full(count, steps * beams + 1)}
        own = {"order": np.arange(count * beams), "scores": scores, "first_rows": first_rows, "bans": bans}
        found = multi_step.run(names, {**state, **limits, **own, "end_id": np.array(self._eos_id)})
        offers, tokens, totals, chosen = found[:4]
        if len(tokens) != steps:
            return False
        for step in range(steps):
            state["positions"][:] = state["self_lengths"][:] = step
            state["self_total"][()] = step + 1
            logits, _ = self._step(state, count * beams)
            gains = logits.astype(np.float64) + bans
            gains -= np.logaddexp.reduce(gains, axis=1, keepdims=True)
            best = -np.sort(-(gains + scores).reshape(count, -1), axis=1)[:, : 2 * beams]
            rows = first_rows + offers[step] // (2 * beams)
            theirs = gains[rows, tokens[step]] + scores[rows, 0]
            if not np.allclose(theirs, totals[step], atol=1e-3) or not np.allclose(theirs, best, atol=1e-3):
                return False
            parents = np.take_along_axis(rows, chosen[step], axis=1).reshape(-1)
            scores = np.take_along_axis(totals[step], chosen[step], axis=1).reshape(-1, 1)
            state["input_ids"][:, 0] = np.take_along_axis(tokens[step], chosen[step], axis=1).reshape(-1)
            for name in caches:
                state[name][...] = state[name][parents]
        return all(np.array_equal(state[name], given) for name, given in zip(caches, found[4:], strict=True))

    def forced(self, sources: Sequence[Source], targets: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        """Score known targets, step by step, as one batch.

        Args:
            sources: N sentences.
            targets: R = N*K target ids without start and end token, row n*K + k for beam k of sentence n.

        Returns:
            For each row logits [T+1, V]: before every target token and after the last.
        """
        steps = max(len(target) for target in targets) + 1
        fed = np.full((len(targets), steps), self._pad_id, np.int64)
        for row, target in enumerate(targets):
            fed[row, : len(target)] = target
        seen: list[NDArray[np.float32]] = []

        def choose(position: int, logits: NDArray[np.float32]) -> NDArray[np.int64] | None:
            seen.append(logits.copy())
            return fed[:, position] if position + 1 < steps else None

        self.run(sources, steps, choose)
        table = np.stack(seen, axis=1)
        return [table[row, : len(target) + 1] for row, target in enumerate(targets)]

    def encode(self, sources: Sequence[Source], capacity: int = 0) -> dict[str, NDArray[Any]]:
        """Run the encoder on one padded batch, at least ``capacity`` wide; returns its outputs by name."""
        lengths = np.array([len(source) for source in sources], np.int32)
        longest = max(capacity, int(lengths.max()))
        padded: NDArray[Any] = np.full((len(sources), longest), self._pad_id, np.int64)
        if isinstance(sources[0], np.ndarray) and sources[0].ndim == 2:
            padded = np.zeros((len(sources), longest, sources[0].shape[1]), np.float32)
        for row, source in enumerate(sources):
            padded[row, : len(source)] = source
        names = [entry.name for entry in self._encoder.get_outputs()]
        feeds = zip([entry.name for entry in self._encoder.get_inputs()], (padded, lengths), strict=True)
        return dict(zip(names, self._encoder.run(None, dict(feeds)), strict=True))

    def run(
        self,
        sources: Sequence[Source],
        capacity: int,
        choose: Chooser,
        observe_encoder: Observer | None = None,
        observe_decoder: Observer | None = None,
    ) -> None:
        """Encode a batch and step until ``choose`` stops, caches updated in place.

        Args:
            sources: N sentences.
            capacity: P, most steps.
            choose: called after every step.
            observe_encoder: gets every output of the encoder graph.
            observe_decoder: gets those of the decoder graph; rows past their end token are not real.
        """
        outputs = self.encode(sources)
        lengths = np.array([len(source) for source in sources], np.int32)
        if observe_encoder is not None:
            real = np.arange(lengths.max())[None, :] < lengths[:, None]
            for name, values in outputs.items():
                observe_encoder(name, values, real)
        rows = len(sources) * self._beams
        state = self._start(outputs, lengths, rows, capacity)
        done = np.zeros(rows, bool)
        for position in range(capacity):
            state["positions"][:] = position
            state["self_lengths"][:] = position
            state["self_total"][()] = position + 1
            logits, extra = self._step(state, rows)
            if observe_decoder is not None:
                for name, values in extra.items():
                    observe_decoder(name, values, ~done)
            chosen = choose(position, logits)
            if chosen is None:
                return
            done |= chosen == self._eos_id
            state["input_ids"][:, 0] = chosen

    def _start(
        self, outputs: dict[str, NDArray[Any]], lengths: NDArray[np.int32], rows: int, capacity: int
    ) -> dict[str, NDArray[Any]]:
        """Lay out every decoder input; the caches among them are outputs at the same time."""
        state: dict[str, NDArray[Any]] = {
            "input_ids": np.full((rows, 1), self._start_id, np.int64),
            "positions": np.zeros((rows, 1), np.int64),
            "self_lengths": np.zeros(rows, np.int32),
            "self_total": np.array(1, np.int32),
            "cross_lengths": lengths - np.int32(1),
            "cross_total": np.array(lengths.max(), np.int32),
        }
        for name, ((heads, positions, width), dtype) in self._own.items():
            state[name] = np.zeros((rows, heads, positions if positions == 1 else capacity, width), dtype)
        for i in range(self._layers):
            for kind in ("key", "value"):
                cross = np.ascontiguousarray(outputs[f"cross_{kind}_{i}"])
                state[f"cross_{kind}_{i}"] = cross
                if self._appends:
                    last = cross[np.arange(len(lengths)), :, lengths - 1]
                    state[f"cross_last_{kind}_{i}"] = last.reshape(len(lengths), 1, -1)
        return state

    def _step(
        self, state: dict[str, NDArray[Any]], rows: int
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
        binding = self._decoder.io_binding()
        for name, array in state.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        loose = []
        for entry in self._decoder.get_outputs():
            source = state.get(cache_of(entry.name))
            if source is None:
                binding.bind_output(entry.name, "cpu")
                loose.append(entry.name)
            else:
                binding.bind_output(entry.name, "cpu", 0, source.dtype.type, source.shape, source.ctypes.data)
        self._decoder.run_with_iobinding(binding)
        values = {
            name: value.numpy()
            for name, value in zip(
                [e.name for e in self._decoder.get_outputs()], binding.get_outputs(), strict=True
            )
            if name in loose
        }
        return values.pop("logits"), values
