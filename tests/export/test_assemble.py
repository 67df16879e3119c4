"""Checkpoints that no bundle can be made of."""

import json
import shutil
from pathlib import Path

import pytest

from export.assemble import check_config
from export.gate_texts import ExportError
from model.checkpoint import load_checkpoint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "my model"}, r"config\.json: name 'my model': String should match pattern"),
        ({"task": "Foo"}, r"config\.json: task 'Foo': String should match pattern"),
        ({"target_language": ""}, r"config\.json: directions\.0\.target '': String should have at least 1"),
        ({"languages": [{"code": "en"}, {"code": "en"}]}, "two languages have the code en"),
        ({"task": "naming", "languages": [{"code": "en"}, {"code": "de"}]}, "naming needs one direction"),
    ],
)
def test_what_no_manifest_can_state_is_not_begun(
    tmp_path: Path, tiny_checkpoint: Path, changes: dict[str, object], message: str
) -> None:
    checkpoint = Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))
    config = checkpoint / "config.json"
    values = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(values | changes), encoding="utf-8")
    with pytest.raises(ExportError, match=message):
        check_config(load_checkpoint(checkpoint))
