"""A MarianMT directory, as people download it, and a small model of ours."""

import hashlib
from pathlib import Path

import onnx
import pytest
import torch

import export.graph.graph_set
from export.graph.onnx_export import export_decoder, export_encoder
from model.transformer import Transformer
from tests.export.small_model import SmallModel, small_model
from tests.integration.marian import learn_pieces, write_marian
from tests.support import factories


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Must not be written to: all tests share it."""
    directory = tmp_path_factory.mktemp("marian")
    sources, targets = factories.parallel_text(300)
    pieces = learn_pieces(sources, directory / "s.spm"), learn_pieces(targets, directory / "t.spm")
    return write_marian(directory / "opus-mt-en-de", *pieces)


@pytest.fixture(scope="session")
def small() -> SmallModel:
    """Its graphs must not be changed: all tests share them."""
    return small_model()


_exported: dict[tuple[bytes, int, torch.dtype], onnx.ModelProto] = {}


def _export_once(model: Transformer, width: int, dtype: torch.dtype) -> onnx.ModelProto:
    """Export the encoder, of width 0, or a decoder, unless that was done with the same weights."""
    content = hashlib.sha256(model.config.model_dump_json().encode())
    for tensor in model.state_dict().values():
        content.update(tensor.numpy().tobytes())
    key = content.digest(), width, dtype
    if key not in _exported:
        _exported[key] = export_decoder(model, width, dtype) if width else export_encoder(model, dtype)
    return _exported[key]


@pytest.fixture
def each_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let exports of a test, and of the others that ask for this, make no graph twice: it takes seconds."""
    graph_set = export.graph.graph_set
    monkeypatch.setattr(
        graph_set, "export_encoder", lambda model, dtype, weights: _export_once(model, 0, dtype)
    )
    monkeypatch.setattr(
        graph_set, "export_decoder", lambda model, width, dtype, weights: _export_once(model, width, dtype)
    )
