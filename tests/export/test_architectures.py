"""Trained models of other architectures than Marian's, in int8: every gate, every graph, and back again."""

from pathlib import Path

import onnx
import pytest
import torch

from export.bundle import load_manifest
from export.convert.from_huggingface import HuggingFaceError
from export.convert.to_huggingface import write_huggingface
from export.gate_texts import ExportError
from export.int8.fused_attention import fuse_attention
from export.pipeline import ExportOptions, export_bundle
from export.recovery.from_bundle import recover_checkpoint
from export.shortlist.build import shortlist_bundle
from model.checkpoint import CheckpointError, load_checkpoint, model_tensors
from model.pruning.prune import prune_checkpoint
from server.runtime.model_runtime import ModelRuntime
from tests.support import factories

T5 = {
    "norm_kind": "rms",
    "biases": False,
    "activation": "gelu_tanh",
    "gated_ffn": True,
    "positions": "none",
    "scale_embeddings": False,
    "relative_distances": 6,
    "head_dim": 16,
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return factories.tiny_checkpoint(tmp_path_factory.mktemp("t5"), **T5)


@pytest.fixture(scope="module")
def bundle(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), checkpoint, "int8")


@pytest.mark.slow
def test_a_model_that_knows_distances_passes_every_gate_in_int8(bundle: Path) -> None:
    manifest = load_manifest(bundle)
    assert manifest.quality is not None
    assert manifest.quality.scores["fp32"].bleu > 50, "it has learnt something"
    assert manifest.quality.bleu_loss < 3
    assert manifest.batch_invariant
    # They would have been removed if they did other than single steps do.
    assert manifest.graphs.multi_step is not None
    assert manifest.graphs.beam_multi_step.keys() == {"2", "4"}
    nodes = [node.op_type for node in onnx.load(bundle / manifest.graphs.encoder).graph.node]
    assert "MultiHeadAttention" in nodes
    assert "QAttention" not in nodes, "it would lose the bias"
    assert nodes.count("SimplifiedLayerNormalization") == 2 * 2 + 1


@pytest.mark.slow
def test_its_weights_come_back(tmp_path: Path, checkpoint: Path, bundle: Path) -> None:
    config = recover_checkpoint(bundle, tmp_path / "back")
    first, again = load_checkpoint(checkpoint), load_checkpoint(tmp_path / "back")
    assert first.config.model.differences(config.model) == {}
    theirs = model_tensors(again.model)
    for name, tensor in model_tensors(first.model).items():
        if name.endswith("table"):
            assert torch.equal(tensor, theirs[name]), name
        assert (tensor - theirs[name]).abs().max() <= 0.02 * tensor.abs().max(), name


@pytest.mark.slow
def test_what_cannot_be_held_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(ExportError, match="fp16 is for CUDA, whose attention takes no biases of distances"):
        export_bundle(
            checkpoint, tmp_path / "out", ExportOptions(precision="fp16", calibration=[tmp_path / "none"])
        )
    with pytest.raises(HuggingFaceError, match="no Hugging Face class fits: the model has no positions"):
        write_huggingface(load_checkpoint(checkpoint), tmp_path / "out")


@pytest.mark.parametrize("taken", [3, 5])
def test_an_attention_that_adds_something_is_not_fused(taken: int) -> None:
    make = onnx.helper.make_node
    inputs = ["q", "k", "v", "", "lengths", ""]
    inputs[taken] = "bias"
    nodes = [
        make("MatMulIntegerToFloat", ["x", "w", "s", "t", "z"], ["packed"]),
        make("Gather", ["packed", "at"], ["padded"], axis=0),
        make("Split", ["padded"], ["q", "k", "v"], axis=2),
        make("MultiHeadAttention", inputs, ["context"], num_heads=2),
    ]
    graph = onnx.helper.make_graph(nodes, "encoder", [], [])
    fuse_attention(graph)
    assert [node.op_type for node in graph.node] == [node.op_type for node in nodes]


@pytest.mark.slow
def test_a_recurrent_decoder_passes_every_gate_in_int8_and_comes_back(
    tmp_path: Path, recurrent_checkpoint: Path, recurrent_bundle_int8: Path
) -> None:
    bundle, manifest = recurrent_bundle_int8, load_manifest(recurrent_bundle_int8)
    assert manifest.quality is not None
    assert manifest.quality.scores["fp32"].bleu > 50, "it has learnt something"
    assert manifest.quality.bleu_loss < 3
    assert manifest.batch_invariant
    assert manifest.graphs.multi_step is not None
    assert manifest.graphs.beam_multi_step.keys() == {"2", "4"}
    inputs = {entry.name: entry.type.tensor_type for entry in _inputs(bundle, manifest.graphs.decoders["2"])}
    shape = [dim.dim_value or dim.dim_param for dim in inputs["self_state_1"].shape.dim]
    assert shape == ["2*sentences", 1, 1, 48]
    assert inputs["self_state_1"].elem_type == onnx.TensorProto.FLOAT
    assert inputs["cross_key_1"].elem_type == onnx.TensorProto.INT8
    assert not any(name.startswith(("self_key", "self_value")) for name in inputs)
    options = factories.shortlist_options(tmp_path)
    listed = shortlist_bundle(bundle, tmp_path / "shortlist", options)
    runtime = ModelRuntime(tmp_path / "shortlist", listed, shortlist=True)
    assert runtime.columns is not None
    assert runtime.spec.state_size == 48
    config = recover_checkpoint(bundle, tmp_path / "back")
    first, theirs = (
        load_checkpoint(recurrent_checkpoint),
        model_tensors(load_checkpoint(tmp_path / "back").model),
    )
    assert first.config.model.differences(config.model) == {}
    for name, tensor in model_tensors(first.model).items():
        assert (tensor - theirs[name]).abs().max() <= 0.02 * tensor.abs().max(), name


@pytest.mark.slow
def test_what_a_recurrent_decoder_is_refused_for(tmp_path: Path, recurrent_checkpoint: Path) -> None:
    with pytest.raises(HuggingFaceError, match="no Hugging Face class fits: the model has"):
        write_huggingface(load_checkpoint(recurrent_checkpoint), tmp_path / "out")
    texts = factories.write_text(tmp_path)
    with pytest.raises(CheckpointError, match="only decoders with self-attention are pruned"):
        prune_checkpoint(recurrent_checkpoint, tmp_path / "out", 0.5, [texts[0]], [texts[1]])


@pytest.mark.slow
def test_in_fp16_the_state_is_too(tmp_path: Path, recurrent_checkpoint: Path) -> None:
    manifest = load_manifest(bundle := factories.tiny_bundle(tmp_path, recurrent_checkpoint, "fp16"))
    assert manifest.quality is not None
    assert manifest.quality.bleu_loss < 1
    inputs = {entry.name: entry.type.tensor_type for entry in _inputs(bundle, manifest.graphs.decoders["1"])}
    assert inputs["self_state_0"].elem_type == onnx.TensorProto.FLOAT16


def _inputs(bundle: Path, file: str) -> list[onnx.ValueInfoProto]:
    return list(onnx.load(bundle / file, load_external_data=False).graph.input)
