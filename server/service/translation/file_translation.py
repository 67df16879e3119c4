"""Files of any size, line by line: many lines at once, in order, with bounded memory.

A thread reads; the caller's thread runs the event loop on which lines are translated, takes them in order and
writes. Only so many requests are under way, so a slow side holds back the other. The caller's thread never
reads, so Ctrl-C and a closed output end the run at once even while the input stands still.
"""

import asyncio
import contextlib
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from export.bundle import Manifest
from server.engine.observer import NullObserver
from server.errors import DragomanError, UnsupportedLanguageError
from server.service.models.loading import load_model
from server.service.request_limits import request_limits
from server.service.text.codec import TextTranslation
from server.service.text.explanation.explained import as_json
from server.service.text.languages import Directions
from server.service.text.options import TextOptions
from server.service.translation.request import RequestedOptions, Translation, TranslationRequest, gathered
from server.service.translation.translator import Translator
from server.settings import Settings

Translate = Callable[[TranslationRequest], Coroutine[Any, Any, Translation]]
"""What a file goes through, and a request of HTTP, too."""

_READ_BYTES = 1 << 16
# Lines that are submitted as one request, and requests that may be under way: enough to fill every row of a
# large machine (32 x 64 lines), little enough to keep memory flat.
_LINES_PER_REQUEST = 32
_REQUESTS_AHEAD = 64
_NAMED_DIRECTIONS = 100
_MOST_NAMED = 100
_LIMITS = ("max_queue_sentences", "max_queue_tokens", "max_request_tokens", "max_texts", "max_text_chars")


def without_limits(settings: Settings) -> Settings:
    """Give the settings for a file, which nobody else waits beside: requests and queue have no limits."""
    return settings.model_copy(update=dict.fromkeys(_LIMITS, sys.maxsize))


def request_of_lines(options: RequestedOptions, text: TextOptions, **how: Any) -> TranslationRequest:
    """State how lines are translated, in a request that lacks languages and texts; `how`: more fields."""
    text = replace(text, split_lines=True)
    return TranslationRequest("", (), "", "", math.inf, options, text_options=text, **how)


def read_lines(file_descriptor: int) -> Iterator[list[bytes]]:
    """Read lines with their ends, as many at a time as have arrived; only the last may lack its end."""
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
    """Translate lines, without their ends, with a bundle that is loaded for them alone.

    Args:
        bundle: directory of the bundle.
        lines: each gets one translation.
        beam_size: hypotheses kept at each step.
        length_penalty: exponent of the length in a score.
        split: whether a line of several sentences is translated sentence by sentence.
        direction: ``en-fr``, of a bundle that has several; its first unless given.
        guard: `off` for the model's own words, `mend` for what the server answers.

    Raises:
        BundleError: the bundle is refused.
        UnsupportedLanguageError: the bundle has no such direction.
        LineError: a line cannot be translated.
    """
    settings = without_limits(Settings(bundle=(bundle,)))
    model = load_model(settings, NullObserver())
    try:
        pair = named_direction(model.manifest, direction)
        translator = Translator(model, request_limits(settings, model.manifest))
        options = RequestedOptions(beam_size=beam_size, length_penalty=length_penalty)
        request = request_of_lines(options, TextOptions(guard=guard), split=split)
        file = FileTranslator(lambda part: translator.translate(part, *pair), request)
        arrived = [[line.encode("utf-8") + b"\n" for line in lines]]
        return [line.text.removesuffix("\n") for line in file.run(arrived)]
    finally:
        model.engine.close(0.0)


class LineError(Exception):
    """A line cannot be translated. `str()` names the line and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        """Keep the line's number, from 1, and what is wrong with it."""
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
class _Line:
    """A line that was read: its number from 1, its parts, and what is wrong with it, if anything is."""

    number: int
    size: int
    body: str
    end: str
    fault: str = ""


class FileTranslator:
    """Translates a stream of lines, in one run."""

    def __init__(
        self,
        translate: Translate | None,
        request: TranslationRequest,
        errors: Literal["replace", "fail"] = "replace",
        report: Callable[[str], None] = lambda _complaint: None,
    ) -> None:
        """Prepare the run.

        Args:
            translate: translates requests, used from one event loop after another; None leaves lines as they
                are.
            request: what holds for all lines, see `request_of_lines`. With `every_hypothesis`, all
                translations of a line are written, as in Moses' n-best lists: its number from 0, the
                translation and its score between bars.
            errors: `replace` writes a line that is not UTF-8 as it is, with U+FFFD for what is no text;
                `fail` ends the run there.
            report: told of each such line; of the first hundred by number, of the rest how many they are.

        Raises:
            InvalidRequestError: what is asked for cannot be served, whatever the lines are.
        """
        self._translate = translate
        self._request = request
        self._errors = errors
        self._report = report
        self._complaints = 0
        self._numbers = itertools.count()
        self._has_ended = False
        if translate is not None:  # an empty line, before any is read; there are no empty features
            asyncio.run(translate(replace(request, texts=() if request.are_features else ("",))))

    def run(self, arrived: Iterable[list[bytes]]) -> Iterator[TranslatedLine]:
        """Translate all lines of a source.

        Args:
            arrived: lines with their ends, as many at a time as there are; iterated on a thread of its own.

        Yields:
            One translation for each line, in order; empty lines stay empty.

        Raises:
            LineError: a line has too many tokens, or the engine failed on it, or it is not UTF-8 and errors
                are to fail. All before it were yielded.
        """
        room = threading.Semaphore(_REQUESTS_AHEAD)
        with contextlib.ExitStack() as stack:
            stack.callback(room.release)  # last of all: the reader finds the loop closed, and ends
            loop = stack.enter_context(asyncio.Runner()).get_loop()
            stack.callback(setattr, self, "_has_ended", True)
            # What fails is raised here when its turn has come, or interests nobody.
            loop.set_exception_handler(lambda _loop, _context: None)
            begun: _Begun = asyncio.Queue()
            reading = (arrived, begun, room, loop)
            threading.Thread(target=self._read, args=reading, name="dragoman-reader", daemon=True).start()
            while (request := loop.run_until_complete(begun.get())) is not None:
                if isinstance(request, Exception):
                    raise request
                yield from self._written(*loop.run_until_complete(request))
                room.release()
        if self._complaints > _MOST_NAMED:
            self._report(f"{self._complaints - _MOST_NAMED} more lines were not valid UTF-8")

    def _read(
        self,
        arrived: Iterable[list[bytes]],
        begun: "_Begun",
        room: threading.Semaphore,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Read on a thread of its own, and have the loop begin with what there is."""

        def begin(lines: Sequence[_Line]) -> None:
            if not self._has_ended:
                begun.put_nowait(loop.create_task(self._translated(lines)))

        last: Exception | None = None
        numbers = itertools.count(1)
        try:
            for batch in _batches(arrived):
                room.acquire()
                loop.call_soon_threadsafe(begin, [_line_of(next(numbers), raw) for raw in batch])
        except Exception as error:  # noqa: BLE001 - it is raised again in the other thread
            last = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(begun.put_nowait, last)

    async def _translated(
        self, lines: Sequence[_Line]
    ) -> tuple[Sequence[_Line], Sequence[TextTranslation | LineError]]:
        """Translate lines together, or else one by one up to the bad one, so that it is the one named."""
        with contextlib.suppress(DragomanError):
            return lines, await self._together(lines)
        found: list[TextTranslation | LineError] = []
        for line in lines:
            try:
                found += await self._together([line])
            except DragomanError as error:
                return lines, [*found, LineError(line.number, str(error))]
        return lines, found

    async def _together(self, lines: Sequence[_Line]) -> Sequence[TextTranslation]:
        bodies = tuple(line.body for line in lines)
        places = [place for place, line in enumerate(lines) if not line.fault]
        parts = []
        if self._translate is not None and places:
            request = replace(self._request, request_id=f"lines-{next(self._numbers)}", texts=bodies)
            parts.append((places, await self._translate(request.part(places))))
        return gathered(bodies, parts, "", "").texts

    def _written(
        self, lines: Sequence[_Line], found: Sequence[TextTranslation | LineError]
    ) -> Iterator[TranslatedLine]:
        for line, translation in zip(lines, found, strict=False):
            if isinstance(translation, LineError):
                raise translation
            if line.fault:
                self._complain(line)
            yield TranslatedLine(self._text_of(line, translation), line.size, line is lines[-1])

    def _complain(self, line: _Line) -> None:
        if self._errors == "fail":
            raise LineError(line.number, line.fault)
        self._complaints += 1
        if self._complaints <= _MOST_NAMED:
            self._report(f"line {line.number}: {line.fault}; it is written as it is, untranslated")

    def _text_of(self, line: _Line, translation: TextTranslation) -> str:
        # One line in, one line out, whatever the model writes.
        found = [hypothesis.replace("\n", " ") for hypothesis in translation.hypotheses]
        if self._request.text_options.explains:
            return as_json(found[0], translation.explanation, self._request.text_options)
        if self._request.every_hypothesis:
            ranked = zip(found, translation.scores, strict=True)
            return "".join(f"{line.number - 1} ||| {one} ||| {score:.6g}\n" for one, score in ranked)
        return found[0] + line.end


_Begun = asyncio.Queue[
    asyncio.Task[tuple[Sequence[_Line], Sequence[TextTranslation | LineError]]] | Exception | None
]
"""Requests in order; at the end None, or what ended the reading."""


def named_direction(manifest: Manifest, name: str | None) -> tuple[str, str]:
    """Find the direction of a bundle that is called so: ``en-fr``; None is its first.

    Raises:
        UnsupportedLanguageError: the bundle has no such direction.
    """
    known = {f"{source}-{target}": (source, target) for source, target in manifest.pairs}
    name = next(iter(known)) if name is None else name
    if name not in known:
        raise UnsupportedLanguageError(
            f"{name} is not a direction of this bundle: {list_directions(manifest.pairs)}"
        )
    return known[name]


def list_directions(pairs: Iterable[tuple[str, str]]) -> str:
    """Name directions in a message, the first hundred at most."""
    return ", ".join(f"{source}-{target}" for source, target in itertools.islice(pairs, _NAMED_DIRECTIONS))


def choose_direction(manifest: Manifest, source: str | None, target: str | None) -> tuple[str, str]:
    """Choose the first direction of a bundle that fits; None fits every language.

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


def _batches(arrived: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Cut what has arrived into requests; nothing waits for more, so a terminal is answered line by line."""
    for lines in arrived:
        for start in range(0, len(lines), _LINES_PER_REQUEST):
            yield lines[start : start + _LINES_PER_REQUEST]


def _line_of(number: int, raw: bytes) -> _Line:
    fault = ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        text, fault = raw.decode("utf-8", "replace"), f"not valid UTF-8 at byte {error.start + 1}"
    body = text.rstrip("\r\n")
    return _Line(number, len(raw), body, text[len(body) :], fault)
