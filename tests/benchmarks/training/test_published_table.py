"""Training and scoring in one command, on the toy language cut into pieces."""

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.training import published_table
from tests.support.toy_training import write_corpus, write_recipe


def test_trains_averages_and_scores_every_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus(tmp_path, dev=220)
    for file in list(tmp_path.glob("*.de")):
        file.write_text(re.sub("Kat|Vog", r"\g<0>@@ ", file.read_text()))
    for side in ("en", "de"):
        shutil.copyfile(tmp_path / f"dev.{side}", tmp_path / f"held-out.{side}")
    options = {"max_epochs": 40, "max_updates": 1000, "validate_every": "epoch", "validate_sentences": 5}
    file = write_recipe(tmp_path, **options, keep_checkpoints=3, average_checkpoints=3)
    file.write_text(file.read_text().replace('kind = "bpe"', 'kind = "word"'))
    run = tmp_path / "run"

    command = ["--recipe", str(file), "--out", str(run), "--seed", "7", "--sets", "held-out"]
    published_table.main(command)
    found = json.loads((run / "scores.json").read_text())["scores"]["held-out"]
    assert found["bleu"] > 90
    assert "tok:none" in found["bleu_signature"]
    assert f"{found['bleu']:.2f}" in capsys.readouterr().out

    other = tmp_path / "other"
    other.mkdir()
    (other / "scores.json").write_text((run / "scores.json").read_text().replace(str(found["bleu"]), "50.0"))
    published_table.main(["--summary", str(run), str(other)])
    last = capsys.readouterr().out.splitlines()[-1]
    mean = (found["bleu"] + 50) / 2
    assert last == f"| mean of 2 seeds (lowest-highest) | {mean:.2f} (50.00-{found['bleu']:.2f}) |"
