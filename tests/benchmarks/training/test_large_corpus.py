"""A corpus costs little memory and little time to start: 100 times as many pairs, measured."""

from pathlib import Path

import pytest

from benchmarks.training import large_corpus


@pytest.mark.slow
def test_a_large_corpus_costs_little_memory(tmp_path: Path) -> None:
    found = large_corpus.compare(tmp_path, 100_000, 60)
    # As lists of ids and strings, 100,000 pairs took more than 75 MiB.
    assert found["more_mib"] < 40
    assert found["from_text"]["peak_mib"] - found["a_thousand_pairs"]["peak_mib"] < 300
    assert 0 < found["tokenised"]["first_update_s"] < 60
    table = tmp_path / "run-many" / "tokens"
    assert (table / "source.offsets").stat().st_size == 8 * 100_001
