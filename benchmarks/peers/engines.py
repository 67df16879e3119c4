"""The three systems behind one small interface. Pieces in, tokens out; text and HTTP are not their matter."""

from __future__ import annotations

import itertools
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from benchmarks.models import Model, longest_target

END = "</s>"
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Work:
    """Sentences in a system's own form.

    Attributes:
        sources: ids or pieces, the end token included.
        beam: beams; 1 is greedy search.
        length: target tokens that every sentence is forced to, or None to let the model decide.
    """

    sources: list[Any]
    beam: int
    length: int | None


class Engine(ABC):
    """A system with one model. Not thread-safe."""

    def __init__(self, model: Model) -> None:
        """Keep where the model is.

        Args:
            model: folders of the model.
        """
        self.model = model
        self.ids: dict[str, int] = json.loads((model.huggingface / "vocab.json").read_bytes())
        self.pieces = {number: piece for piece, number in self.ids.items()}

    @abstractmethod
    def import_library(self) -> None:
        """Import what the system is made of, so that `load` is timed without that."""

    @abstractmethod
    def load(self, settings: dict[str, Any]) -> None:
        """Load the model with settings that hold until the end."""

    @abstractmethod
    def source(self, sentence: list[str]) -> Any:
        """Turn pieces without the end token into what `translate` takes."""

    @abstractmethod
    def translate(self, work: Work, call: dict[str, Any]) -> list[list[str]]:
        """Translate and wait for it.

        Args:
            work: the sentences.
            call: settings that may differ from call to call.

        Returns:
            The pieces of every sentence's best translation, without the end token.
        """

    def prepare(self, sentences: Sequence[list[str]], beam: int, length: int | None) -> Work:
        """Turn sentences into the system's own form, outside of what is timed."""
        return Work([self.source(sentence) for sentence in sentences], beam, length)

    def split(self, work: Work) -> list[Work]:
        """Make a work of every sentence."""
        return [replace(work, sources=[source]) for source in work.sources]

    def close(self) -> None:  # noqa: B027 - most have nothing to stop
        """Stop whatever runs."""


class Dragoman(Engine):
    """The bundle through the worker pool, as `dragoman translate` has it.

    Settings: those of `server.settings.Settings`, as ``max_rows`` and ``workers``. Of a call:
    ``min_decoding_length``, if it is not the forced length.
    """

    def import_library(self) -> None:
        """Import the server's engine."""
        import server.service.models.loading  # noqa: F401

    def load(self, settings: dict[str, Any]) -> None:
        """Verify and load the bundle, start the workers."""
        from server.engine.observer import NullObserver
        from server.process_tuning import return_large_blocks
        from server.service.models.loading import load_model
        from server.settings import Settings

        return_large_blocks()
        served = load_model(Settings(bundle=self.model.bundle, **settings), NullObserver())
        self._engine, manifest = served.engine, served.manifest
        self._prefix, self._suffix, _ = manifest.framing(*next(manifest.pairs))
        self._longest = manifest.limits.max_target_tokens
        self._calls = 0

    def source(self, sentence: list[str]) -> tuple[int, ...]:
        """Look up ids, with the manifest's prefix and suffix."""
        return (*self._prefix, *(self.ids[piece] for piece in sentence), *self._suffix)

    def translate(self, work: Work, call: dict[str, Any]) -> list[list[str]]:
        """Submit all sentences as one request."""
        from server.engine.options import DecodingOptions
        from server.engine.sequence import SequenceResult

        self._calls += 1
        options = DecodingOptions(
            beam_size=work.beam,
            min_decoding_length=call.get("min_decoding_length", work.length or 0),
            max_decoding_length=work.length or self._longest,
        )
        futures: list[Future[SequenceResult]] = self._engine.submit(f"{self._calls}", work.sources, options)
        results = [future.result(_PATIENCE_S) for future in futures]
        return [[self.pieces[token] for token in result.hypotheses[0].tokens] for result in results]

    def keep_in_flight(self, work: Work, count: int, warm_s: float, seconds: float) -> int:
        """Translate sentences over and over, a request each, so that a number of them is always under way.

        Args:
            work: the sentences, greedy.
            count: of those under way.
            warm_s: before the window opens.
            seconds: of the window.

        Returns:
            Tokens of the translations that ended in the window.
        """
        from server.engine.options import DecodingOptions
        from server.engine.sequence import SequenceResult

        options = DecodingOptions(max_decoding_length=self._longest)
        ended: SimpleQueue[Future[SequenceResult]] = SimpleQueue()
        numbers = itertools.count()

        def submit() -> None:
            number = next(numbers)
            source = work.sources[number % len(work.sources)]
            (future,) = self._engine.submit(f"in flight {number}", [source], options)
            future.add_done_callback(ended.put)

        for _ in range(count):
            submit()
        opens_s = time.monotonic() + warm_s
        tokens = 0
        while time.monotonic() < opens_s + seconds:
            result = ended.get(timeout=_PATIENCE_S).result()
            if time.monotonic() >= opens_s:
                tokens += len(result.hypotheses[0].tokens)
            submit()
        for _ in range(count):
            ended.get(timeout=_PATIENCE_S)
        return tokens

    def close(self) -> None:
        """Stop the workers."""
        self._engine.close(1.0)


class CTranslate2(Engine):
    """CTranslate2's own Translator; a model that has a vocabulary map is decoded with it.

    Settings: ``device``, ``inter_threads``, ``intra_threads``, ``compute_type``. Of a call:
    ``max_batch_size``, ``min_decoding_length``.
    """

    def import_library(self) -> None:
        """Import CTranslate2."""
        import ctranslate2  # noqa: F401

    def load(self, settings: dict[str, Any]) -> None:
        """Load the converted model."""
        import ctranslate2

        self._longest = longest_target(self.model.huggingface)
        self._use_vmap = (self.model.ctranslate2 / "vmap.txt").exists()
        self._translator = ctranslate2.Translator(
            str(self.model.ctranslate2), **({"device": "cpu"} | settings)
        )

    def source(self, sentence: list[str]) -> list[str]:
        """Add the end token; CTranslate2 takes pieces."""
        return [*sentence, END]

    def translate(self, work: Work, call: dict[str, Any]) -> list[list[str]]:
        """Translate with one call."""
        length = {
            "min_decoding_length": work.length or 1,
            "max_decoding_length": work.length or self._longest,
        }
        results = self._translator.translate_batch(
            work.sources, beam_size=work.beam, use_vmap=self._use_vmap, **(length | call)
        )
        return [result.hypotheses[0] for result in results]


class Transformers(Engine):
    """``generate`` of transformers, one padded batch: fp32 on a CPU, where it has nothing else, or fp16.

    Settings: ``device``; cuda takes fp16.
    """

    def import_library(self) -> None:
        """Import transformers and torch."""
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(os.cpu_count() or 1)

    def load(self, settings: dict[str, Any]) -> None:
        """Load the weights."""
        import torch
        from transformers import AutoModelForSeq2SeqLM

        self._device = settings.get("device", "cpu")
        dtype = torch.float32 if self._device == "cpu" else torch.float16
        loaded = AutoModelForSeq2SeqLM.from_pretrained(self.model.huggingface, dtype=dtype)
        self._model = loaded.to(self._device).eval()
        self._model.generation_config.max_length = None

    def source(self, sentence: list[str]) -> list[int]:
        """Look up ids, with the end token."""
        return [*(self.ids[piece] for piece in sentence), self.ids[END]]

    def translate(self, work: Work, call: dict[str, Any]) -> list[list[str]]:
        """Pad and generate."""
        import torch

        config = self._model.config
        longest = max(map(len, work.sources))
        padded = [source + [config.pad_token_id] * (longest - len(source)) for source in work.sources]
        mask = [[1] * len(source) + [0] * (longest - len(source)) for source in work.sources]
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=torch.tensor(padded, device=self._device),
                attention_mask=torch.tensor(mask, device=self._device),
                num_beams=work.beam,
                do_sample=False,
                max_new_tokens=work.length or 3 * longest + 32,
                min_new_tokens=work.length,
            )
        ends = {config.eos_token_id, config.pad_token_id}
        return [[self.pieces[t] for t in row[1:] if t not in ends] for row in output.tolist()]


ENGINES: dict[str, type[Engine]] = {
    "dragoman": Dragoman,
    "CTranslate2": CTranslate2,
    "transformers": Transformers,
}
