"""Weights of a bundle as a checkpoint again: the same numbers, or those that int8 stands for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from export.bundle import BundleError, describe_files
from export.cli import run_import
from export.convert.vocabularies.vocabulary import ImportNames
from export.pipeline import ExportOptions, export_bundle
from export.recovery.from_bundle import RecoveryError, recover_checkpoint
from model.checkpoint import load_checkpoint, model_tensors
from tests.support import factories


def _integers(bundle: Path) -> dict[str, NDArray[Any]]:
    found = {}
    for file in ("encoder.onnx", "decoder.onnx"):
        for tensor in onnx.load(bundle / file).graph.initializer:
            if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2:
                found[f"{file}/{tensor.name}"] = numpy_helper.to_array(tensor)
    return found


def _edit(bundle: Path, **details: object) -> None:
    path = bundle / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["architecture"]["details"].update(details)
    path.write_text(json.dumps(values), encoding="utf-8")


def test_fp32_weights_come_back_bit_by_bit(tmp_path: Path, tiny_checkpoint: Path, tiny_bundle: Path) -> None:
    config = recover_checkpoint(tiny_bundle, tmp_path / "back")
    first, again = load_checkpoint(tiny_checkpoint), load_checkpoint(tmp_path / "back")
    theirs = model_tensors(again.model)
    for name, tensor in model_tensors(first.model).items():
        assert torch.equal(tensor, theirs[name]), name
    assert again.config.model == first.config.model.model_copy(
        update={"dropout": again.config.model.dropout, "max_positions": again.config.model.max_positions}
    )
    assert config.special_tokens == first.config.special_tokens
    assert (config.source_language, config.target_language) == ("en", "de")
    assert config.attribution == "Sentences made for the tests."
    assert config.origin == "Recovered from the bundle tiny-en-de 1: fp32 weights."
    assert (tmp_path / "back" / "source.spm").read_bytes() == (tiny_bundle / "source.spm").read_bytes()


def test_fp16_weights_come_back_as_they_were_rounded(
    tmp_path: Path, tiny_checkpoint: Path, tiny_bundle_fp16: Path
) -> None:
    config = recover_checkpoint(tiny_bundle_fp16, tmp_path / "back")
    assert config.origin == "Recovered from the bundle tiny-en-de 1: fp16 weights."
    theirs = model_tensors(load_checkpoint(tmp_path / "back").model)
    for name, tensor in model_tensors(load_checkpoint(tiny_checkpoint).model).items():
        assert torch.equal(tensor.half().float(), theirs[name]), name


@pytest.mark.usefixtures("each_graph_once")
@pytest.mark.parametrize("bits", [7, 8])
def test_int8_weights_become_the_same_integers_again(
    tmp_path: Path, tiny_checkpoint: Path, bits: int
) -> None:
    source, target = factories.write_text(tmp_path)
    options = ExportOptions(
        dev_source=[source], dev_target=[target], weight_bits=bits, beam_widths=(1,), allow_quality_loss=True
    )
    export_bundle(tiny_checkpoint, tmp_path / "first", options)
    config = recover_checkpoint(tmp_path / "first", tmp_path / "back")
    assert config.origin.endswith(f"int8 weights of {bits} bits, dequantised to fp32.")
    theirs = model_tensors(load_checkpoint(tmp_path / "back").model)
    for name, tensor in model_tensors(load_checkpoint(tiny_checkpoint).model).items():
        assert (tensor - theirs[name]).abs().max() <= 0.01 * tensor.abs().max(), name
    export_bundle(tmp_path / "back", tmp_path / "second", options)
    first, second = _integers(tmp_path / "first"), _integers(tmp_path / "second")
    assert len(first) == 2 * 4 + 2 * 7 + 3
    assert first.keys() == second.keys()
    for name, integers in first.items():
        assert np.array_equal(integers, second[name]), name


def test_encoders_that_scale_keys_and_values_behind_their_product_are_read_alike(
    tmp_path: Path, tiny_bundle_int8: Path
) -> None:
    """As those of older bundles do."""
    recover_checkpoint(tiny_bundle_int8, tmp_path / "now")
    bundle = Path(shutil.copytree(tiny_bundle_int8, tmp_path / "old"))
    model, decoder = onnx.load(bundle / "encoder.onnx"), onnx.load(bundle / "decoder.onnx")
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in decoder.graph.initializer}
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    layers = len([name for name in scales if name.startswith("cross_key_")])
    for i, node in enumerate(products[-layers:]):
        both = [scales[f"cross_{part}_{i}.scale"] for part in ("key", "value")]
        for name in (node.input[3], *node.input[6:]):
            plain = numpy_helper.to_array(constants[name]) * np.concatenate(both)
            constants[name].CopyFrom(numpy_helper.from_array(plain, name))
        graph.initializer.append(numpy_helper.from_array(1 / both[0], f"cross_key_{i}.inverse_scale"))
    onnx.save(model, bundle / "encoder.onnx")
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = {name: entry.model_dump() for name, entry in describe_files(bundle).items()}
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    recover_checkpoint(bundle, tmp_path / "then")
    then = model_tensors(load_checkpoint(tmp_path / "then").model)
    for name, tensor in model_tensors(load_checkpoint(tmp_path / "now").model).items():
        assert torch.allclose(tensor, then[name], rtol=1e-6, atol=0), name


def test_a_bundle_that_states_no_details_has_the_defaults(tmp_path: Path, tiny_bundle: Path) -> None:
    bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "old"))
    path = bundle / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["architecture"]["details"]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert recover_checkpoint(bundle, tmp_path / "back").model.norm == "pre"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"positions": "sinusoidal_halves"}, "of 8 golden sentences"),
        ({"norm": "post"}, "of 8 golden sentences"),
        ({"final_norm": False}, "not those of the stated architecture"),
        ({"share_source_target_embeddings": False, "tie_output": False}, None),
    ],
)
def test_what_the_manifest_says_of_the_architecture_is_checked(
    tmp_path: Path, tiny_bundle: Path, details: dict[str, object], message: str | None
) -> None:
    bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "odd"))
    _edit(bundle, **details)
    if message is None:  # another way to say the same: every table on its own
        assert recover_checkpoint(bundle, tmp_path / "back").model.tie_output is False
        return
    with pytest.raises(RecoveryError, match=message):
        recover_checkpoint(bundle, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_damaged_bundle_is_refused_before_it_is_parsed(tmp_path: Path, tiny_bundle: Path) -> None:
    bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "bad"))
    content = bytearray((bundle / "model.weights").read_bytes())
    content[100] ^= 1
    (bundle / "model.weights").write_bytes(content)
    with pytest.raises(BundleError, match="SHA-256"):
        recover_checkpoint(bundle, tmp_path / "back")


def test_the_command(tmp_path: Path, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "back"
    assert run_import(str(tiny_bundle), out, None, ImportNames(), ExportOptions()) == 0
    assert "Recovered from the bundle" in capsys.readouterr().err
    assert run_import(str(tiny_bundle), out, None, ImportNames(), ExportOptions()) == 1
    assert "exists already; --force replaces it" in capsys.readouterr().err
    assert run_import(str(tiny_bundle), out, "bundle", ImportNames(), ExportOptions(force=True)) == 1
    assert "is a bundle already" in capsys.readouterr().err
