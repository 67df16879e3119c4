import os
import threading
import time
from operator import length_hint

import pytest

from server.errors import InferenceError
from server.service.request_limits import request_limits
from server.service.text.options import TextOptions
from server.service.translation.file_translation import (
    FileTranslator,
    LineError,
    read_lines,
    request_of_lines,
    without_limits,
)
from server.service.translation.request import RequestedOptions
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


def translator(engine: FakeEngine, *, split: bool = True, **changes: object) -> FileTranslator:
    model = served_model(engine, **changes)
    ((source, target),) = model.manifest.pairs
    through = Translator(model, request_limits(without_limits(Settings()), model.manifest))
    return FileTranslator(
        lambda request: through.translate(request, source, target),
        request_of_lines(RequestedOptions(), TextOptions(), split=split),
        "fail",
    )


def translate(source: bytes, engine: FakeEngine | None = None, *, split: bool = True) -> str:
    reader, writer = os.pipe()
    feeder = threading.Thread(target=_feed, args=(writer, source))
    feeder.start()
    try:
        return "".join(
            line.text for line in translator(engine or FakeEngine(), split=split).run(read_lines(reader))
        )
    finally:
        os.close(reader)
        feeder.join()


def _feed(writer: int, source: bytes) -> None:
    try:
        with os.fdopen(writer, "wb") as stream:
            stream.write(source)
    except BrokenPipeError:
        pass


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\n",
        "one\n",
        "one",
        "one\n\n\ntwo\n",
        "one\r\ntwo\r\n",
        " One here.  Two there. \n",
        "mix\x85yes\n",
        "\n\nlast",
    ],
)
def test_lines_ends_and_empty_lines_are_kept(source: str) -> None:
    assert translate(source.encode()) == source.upper()


def test_many_lines_stay_in_order_and_more_wait_than_the_engine_takes() -> None:
    source = "".join(f"line {n}. {'and more. ' * (n % 7)}\n" for n in range(5000))
    assert translate(source.encode(), FakeEngine(max_queue_sentences=300)) == source.upper()


def test_a_line_without_an_end_may_be_longer_than_a_read() -> None:
    source = "word. " * 30_000
    assert translate(source.encode()) == source.upper()


def test_without_splitting_a_line_is_one_sequence() -> None:
    engine = FakeEngine()
    assert translate(b"one. two.\n", engine, split=False) == "ONE. TWO.\n"
    assert [len(sources) for _, sources, _, _ in engine.submitted] == [1]


@pytest.mark.parametrize("source", ["de", "de-AT", "deu_Latn"])
def test_sentences_are_those_of_the_language_whatever_its_code(source: str) -> None:
    engine = FakeEngine()
    lines = translator(engine, directions=[{"source": source, "target": "fra_Latn"}])
    list(lines.run([["Wir sehen uns am 3. Mai in Köln.\n".encode()]]))
    assert len(engine.submitted[0][1]) == 1


def test_bytes_that_are_not_utf8_name_their_line() -> None:
    with pytest.raises(LineError, match="line 3: not valid UTF-8 at byte 3"):
        translate(b"one\ntwo\nab\xff\nfour\n")


def test_a_line_over_the_models_limit_is_translated_in_parts() -> None:
    source = b"one\n" + b"two three four five, " * 25 + b"\nsix\n"
    assert translate(source) == source.decode().upper()


def test_lines_before_a_bad_one_are_translated() -> None:
    lines = []
    with pytest.raises(LineError, match="line 100:"):
        for line in translator(FakeEngine()).run([[b"good\n"] * 99 + [b"\xff\n", b"good\n"]]):
            lines.append(line.text)
    assert lines == ["GOOD\n"] * 99


def test_a_line_that_a_model_of_whole_lines_cannot_read_is_named() -> None:
    lines = []
    with pytest.raises(LineError, match="line 3: a sentence has 101 tokens; the model reads at most 64"):
        file = translator(FakeEngine(), segmentation="none")
        for line in file.run([[b"a\n", b"b\n", b"c " * 100, b"d\n"]]):
            lines.append(line.text)
    assert lines == ["A\n", "B\n"]


def test_limits_of_requests_are_none_of_lines() -> None:
    source = "".join(f"sentence {n} {'and so on ' * 6}ends. " for n in range(1000))
    assert len(source.split()) > Settings().max_request_tokens
    assert translate(b"one\n" + source.encode()) == "ONE\n" + source.upper()


def test_a_failure_of_the_engine_names_where() -> None:
    engine = FakeEngine()
    engine.failure = InferenceError("run failed")
    with pytest.raises(LineError, match="line 1: run failed"):
        translate(b"one\ntwo\n", engine)


def test_whoever_has_had_enough_leaves_no_thread_behind() -> None:
    engine = FakeEngine()
    lines = translator(engine).run([b"line\n"] * 32 for _ in range(10_000))
    next(lines)
    (reader,) = (thread for thread in threading.enumerate() if thread.name == "dragoman-reader")
    lines.close()
    reader.join(20)
    assert not reader.is_alive()
    assert len(engine.submitted) < 70


def test_memory_is_bounded_while_the_reader_of_the_output_is_slow() -> None:
    engine = FakeEngine()
    arrived = iter([[b"line\n"] * 32] * 10_000)
    lines = translator(engine).run(arrived)
    engine.gate.clear()
    waiting = threading.Thread(target=lambda: next(lines))
    waiting.start()
    while len(engine.submitted) < 64:
        time.sleep(0.001)
    for _ in range(3):  # it is written line by line, and more is read only then
        engine.release()
        waiting.join()
        next(lines)
    assert len(engine.submitted) == 64
    assert length_hint(arrived) > 10_000 - 70
    lines.close()
