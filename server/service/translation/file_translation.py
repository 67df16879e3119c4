"""Files of any size, line by line, through the engine: many lines at once, in order, with bounded memory.

A reader thread reads, tokenises and submits; the caller's thread takes the results in order and writes.
Between them is a queue of limited length, so a slow side holds back the other. The caller's thread never
reads, so Ctrl-C and a closed output end the run at once even while the input stands still.
"""

import contextlib
import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from export.bundle import Manifest
from server.engine.observer import NullObserver
from server.engine.sequence import SequenceResult
from server.errors import DragomanError, InvalidRequestError, QueueFullError, UnsupportedLanguageError
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import RequestLimits, request_limits
from server.service.text.codec import Document, Reading, TextCodec
from server.service.text.explanation.explained import as_json
from server.service.text.explanation.requirements import check_explanations
from server.service.text.glossary.entries import Glossary
from server.service.text.jobs import ModelInput
from server.service.text.languages import Directions
from server.service.text.options import TextOptions, Way
from server.service.translation.decoding_options import check_options, choose_each, with_token_scores
from server.service.translation.request import RequestedOptions
from server.settings import Settings

_READ_BYTES = 1 << 16
# Lines that are submitted as one request, and requests that may be under way: enough to fill every row of a
# large machine (32 x 64 lines), little enough to keep memory flat.
_LINES_PER_REQUEST = 32
_NAMED_DIRECTIONS = 100
_REQUESTS_AHEAD = 64
_FULL_QUEUE_PAUSE_S = 0.01
_TEXT_DEFAULTS = TextOptions()


def read_lines(file_descriptor: int) -> Iterator[list[bytes]]:
    """Read lines with their ends, as many at a time as have arrived.

    Args:
        file_descriptor: of a file, pipe or terminal, read to its end.

    Yields:
        One or more lines; only the last one of all may lack its end.
    """
    # Of a line that has not ended; joined once, or a long line would take quadratic time.
    rest: list[bytes] = []
    while block := os.read(file_descriptor, _READ_BYTES):
        first, *others = block.split(b"\n")
        rest.append(first)
        if others:
            lines = [b"".join(rest), *others[:-1]]
            rest = [others[-1]]
            yield [line + b"\n" for line in lines]
    if any(rest):
        yield [b"".join(rest)]


def translate_lines(
    bundle: Path,
    lines: Sequence[str],
    *,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    split: bool = True,
    direction: str | None = None,
    guard: Literal["off", "mend"] = "off",
) -> list[str]:
    """Translate lines with a bundle that is loaded for them alone.

    Args:
        bundle: directory of the bundle.
        lines: without line ends.
        beam_size: hypotheses kept at each step.
        length_penalty: exponent of the length in a score.
        split: whether a line of several sentences is translated sentence by sentence.
        direction: ``en-fr``, of a bundle that has several; its first unless given.
        guard: `off` for the model's own words, `mend` for what the server answers.

    Returns:
        One translation for each line.

    Raises:
        BundleError: the bundle is refused.
        UnsupportedLanguageError: the bundle has no such direction.
        LineError: a line cannot be translated.
    """
    settings = Settings(bundle=(bundle,))
    model = load_model(settings, NullObserver())
    try:
        requested = RequestedOptions(beam_size=beam_size, length_penalty=length_penalty)
        limits = request_limits(settings, model.manifest)
        check_options(requested, limits)
        source, target = named_direction(model.manifest, direction)
        options = LineOptions(split=split, source=source, target=target, text=TextOptions(guard=guard))
        translator = LineTranslator(model, limits, requested, options)
        arrived = [[line.encode("utf-8") + b"\n" for line in lines]]
        return [line.text.removesuffix("\n") for line in translator.run(arrived)]
    finally:
        model.engine.close(0.0)


class LineError(Exception):
    """A line cannot be translated. `str()` names the line and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        """Keep both.

        Args:
            number: of the line, from 1.
            reason: what is wrong with it.
        """
        super().__init__(f"line {number}: {reason}")


@dataclass(frozen=True, slots=True)
class TranslatedLine:
    """One line of the answer.

    Attributes:
        text: the translation with the line's own line end.
        source_bytes: length of the line it came from.
        is_last_of_batch: whether the next one may take a while, so that this is the time to flush.
    """

    text: str
    source_bytes: int
    is_last_of_batch: bool


@dataclass(frozen=True, slots=True)
class _Lines:
    document: Document
    futures: Sequence[Future[SequenceResult]]
    bodies: tuple[str, ...]
    ends: tuple[str, ...]
    sizes: tuple[int, ...]
    first_number: int


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How lines are read and written.

    Attributes:
        split: whether a line of several sentences is translated sentence by sentence.
        source: language of the lines; None takes the bundle's first direction that fits.
        target: language of the translations, likewise.
        n_best: whether all translations of a line are written, as in Moses' n-best lists: its number from 0,
            the translation and its score between bars.
        text: how each line is treated.
        glossary: terms of the direction.
    """

    split: bool = True
    source: str | None = None
    target: str | None = None
    n_best: bool = False
    text: TextOptions = _TEXT_DEFAULTS
    glossary: Glossary | None = None


_LINE_BY_LINE = LineOptions()


class LineTranslator:
    """Translates a stream of lines with one model. One run at a time."""

    def __init__(
        self,
        model: ServedModel,
        limits: RequestLimits,
        requested: RequestedOptions,
        options: LineOptions = _LINE_BY_LINE,
    ) -> None:
        """Prepare a run.

        Args:
            model: a loaded model.
            limits: of which those on texts and requests do not apply here.
            requested: decoding options for all lines.
            options: how lines are read and written.

        Raises:
            UnsupportedLanguageError: the bundle has no such direction.
            InvalidOptionError: the bundle lacks what its translations are to be explained with.
        """
        self._model = model
        self._requested = requested
        self._n_best = options.n_best
        self._codec = TextCodec(text_side(model, limits), replace(limits, max_request_tokens=sys.maxsize))
        check_explanations(options.text, model.measured, samples=requested.samples)
        source, target = choose_direction(model.manifest, options.source, options.target)
        framing = model.manifest.framing(source, target)
        self._way = Way(
            source,
            target,
            framing,
            requested.num_hypotheses,
            options.text.guard,
            every_hypothesis=options.n_best,
            may_be_cut="max_decoding_length" in requested.stated,
            glossary=options.glossary,
            keep=options.text.explains,
        )
        whole = model.manifest.segmentation == "none"
        self._reading = Reading(options.text, split=options.split, every_line=True, whole=whole)
        self._limits = replace(limits, target_prefix=framing.target_prefix)
        self._stop = threading.Event()
        self._pending: queue.Queue[_Lines | Exception | None] = queue.Queue(_REQUESTS_AHEAD)
        self._numbers = itertools.count()

    def run(self, arrived: Iterable[list[bytes]]) -> Iterator[TranslatedLine]:
        """Translate all lines of a source.

        Args:
            arrived: lines with their ends, as many at a time as there are; iterated on a thread of its own.

        Yields:
            One translation for each line, in order; empty lines stay empty.

        Raises:
            LineError: a line is not UTF-8, has too many tokens, or the engine failed on it. All before it
                were yielded.
        """
        reader = threading.Thread(target=self._read_all, args=(arrived,), name="dragoman-reader", daemon=True)
        reader.start()
        try:
            while (lines := self._pending.get()) is not None:
                if isinstance(lines, Exception):
                    raise lines
                yield from self._finish(lines)
        finally:
            self._stop.set()

    def _finish(self, lines: _Lines) -> Iterator[TranslatedLine]:
        document, futures = lines.document, lines.futures
        try:
            while document.inputs:
                document.resume([future.result() for future in futures])
                futures = self._enqueue(document.inputs)
            texts = document.translations(self._requested.num_hypotheses, fill=self._n_best)
            if self._way.keep:
                texts = self._codec.explained(lines.bodies, document, texts, self._reading)
        except DragomanError as error:
            raise LineError(lines.first_number, f"this line or one soon after it failed: {error}") from error
        last = len(texts) - 1
        for i, (text, end, size) in enumerate(zip(texts, lines.ends, lines.sizes, strict=True)):
            # One line in, one line out, whatever the model writes.
            found = [hypothesis.replace("\n", " ") for hypothesis in text.hypotheses]
            if self._way.keep:
                written = as_json(found[0], text.explanation, self._reading.options)
            elif self._n_best:
                number = lines.first_number + i - 1
                ranked = zip(found, text.scores, strict=True)
                written = "".join(f"{number} ||| {one} ||| {score:.6g}\n" for one, score in ranked)
            else:
                written = found[0] + end
            yield TranslatedLine(written, size, i == last)

    def _read_all(self, arrived: Iterable[list[bytes]]) -> None:
        try:
            number = 1
            for batch in _batches(arrived):
                try:
                    self._put(self._submit(batch, number))
                except LineError:
                    # One by one, so that those before the bad line are written, and it is the one named.
                    for offset, raw in enumerate(batch):
                        self._put(self._submit([raw], number + offset))
                number += len(batch)
            self._put(None)
        except _StoppedError:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised again in the other thread
            self._put_last(error)

    def _submit(self, batch: Sequence[bytes], number: int) -> _Lines:
        bodies, ends = [], []
        for offset, raw in enumerate(batch):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise LineError(number + offset, f"not valid UTF-8 at byte {error.start + 1}") from None
            body = line.rstrip("\r\n")
            bodies.append(body)
            ends.append(line[len(body) :])
        try:
            document = self._codec.read(bodies, self._way, self._reading)
            futures = self._enqueue(document.inputs)
        except DragomanError as error:
            raise LineError(number, str(error)) from error
        return _Lines(document, futures, tuple(bodies), tuple(ends), tuple(map(len, batch)), number)

    def _enqueue(self, inputs: Sequence[ModelInput]) -> Sequence[Future[SequenceResult]]:
        if not inputs:
            return ()
        ids = [one.ids for one in inputs]
        options = choose_each(self._requested, self._limits, inputs)
        if self._reading.options.confidence:
            options = with_token_scores(options)
        while not self._stop.is_set():
            try:
                return self._model.engine.submit(f"lines-{next(self._numbers)}", ids, options)
            except QueueFullError:
                time.sleep(_FULL_QUEUE_PAUSE_S)
            except InvalidRequestError:  # more than the queue ever takes at once, or one is at fault
                if len(inputs) == 1:
                    raise
                half = len(inputs) // 2
                return [*self._enqueue(inputs[:half]), *self._enqueue(inputs[half:])]
        raise _StoppedError

    def _put(self, item: _Lines | None) -> None:
        self._put_last(item)
        if self._stop.is_set():
            raise _StoppedError

    def _put_last(self, item: _Lines | Exception | None) -> None:
        while not self._stop.is_set():
            try:
                self._pending.put(item, timeout=0.1)
            except queue.Full:
                continue
            return


def named_direction(manifest: Manifest, name: str | None) -> tuple[str | None, str | None]:
    """Read the name of a direction of a bundle.

    Args:
        manifest: of the bundle.
        name: ``en-fr``; None leaves both languages open.

    Raises:
        UnsupportedLanguageError: the bundle has no such direction.
    """
    if name is None:
        return None, None
    known = {f"{source}-{target}": (source, target) for source, target in manifest.pairs}
    if name not in known:
        raise UnsupportedLanguageError(
            f"{name} is not a direction of this bundle: {list_directions(manifest.pairs)}"
        )
    return known[name]


def list_directions(pairs: Iterable[tuple[str, str]]) -> str:
    """Name directions in a message, the first hundred at most."""
    return ", ".join(f"{source}-{target}" for source, target in itertools.islice(pairs, _NAMED_DIRECTIONS))


def choose_direction(manifest: Manifest, source: str | None, target: str | None) -> tuple[str, str]:
    """Choose the first direction of a bundle that fits.

    Args:
        manifest: of the bundle.
        source: language to translate from; None fits all.
        target: language to translate to, likewise.

    Raises:
        UnsupportedLanguageError: the bundle has no such direction.
    """
    known = Directions(manifest.pairs)
    with contextlib.suppress(UnsupportedLanguageError):  # whose remedy is a route of the server
        first, second = (None if code is None else known.find(code, "") for code in (source, target))
        for pair in manifest.pairs:
            if first in (None, pair[0]) and second in (None, pair[1]):
                return pair
    raise UnsupportedLanguageError(
        f"{source or 'any language'} to {target or 'any language'} is not a direction of this bundle: "
        f"{list_directions(manifest.pairs)}"
    )


class _StoppedError(Exception):
    """The other thread does not want any more."""


def _batches(arrived: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Cut what has arrived into requests; nothing waits for more, so a terminal is answered line by line."""
    for lines in arrived:
        for start in range(0, len(lines), _LINES_PER_REQUEST):
            yield lines[start : start + _LINES_PER_REQUEST]
