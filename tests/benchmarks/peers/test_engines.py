"""What the benchmark of HTTP is compared with: the engine without it, as many sentences always under way."""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from benchmarks.models import Model
from benchmarks.peers.engines import Dragoman
from server.engine.sequence import SequenceResult

SHIPPED = Path(__file__).resolve().parents[3] / "bundles" / "en-de"
LINES = ["the house", "good day", "we are here"]


def test_so_many_sentences_are_always_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(SHIPPED / "source.spm"))
    ids = {processor.id_to_piece(number): number for number in range(processor.get_piece_size())}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="ascii")
    engine = Dragoman(Model("default", SHIPPED, tmp_path, Path("nowhere")))
    engine.load({"max_rows": 4, "workers": 1})
    work = engine.prepare(processor.encode(LINES, out_type=str), 1, None)
    sent: list[tuple[int, ...]] = []
    ended: list[Future[SequenceResult]] = []
    under_way: list[int] = []

    def counted(*arguments: Any) -> list[Future[SequenceResult]]:
        sent.extend(arguments[1])
        under_way.append(len(sent) - len(ended))
        futures = submit(*arguments)
        futures[0].add_done_callback(ended.append)
        return futures

    try:
        lengths = [len(pieces) for pieces in engine.translate(work, {})]
        submit = engine._engine.submit
        monkeypatch.setattr(engine._engine, "submit", counted)
        tokens = engine.keep_in_flight(work, 5, 0.1, 0.4)
        assert max(under_way) == 5
        assert len(ended) == len(sent)
        assert sent == [work.sources[number % 3] for number in range(len(sent))]
        assert min(lengths) <= tokens < len(sent) * max(lengths)  # some ended before the window, and after
        assert engine.keep_in_flight(work, 5, 0.0, 0.0) == 0  # nothing ends in a window that never opens
    finally:
        engine.close()
