"""ONNX Runtime behind the seam, over graphs with random weights."""

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from export.bundle import BundleError, Manifest, load_manifest
from server.engine.kv_cache.arena import Arena
from server.errors import InferenceError
from server.runtime.model_runtime import ModelRuntime
from server.runtime.onnx.session_options import open_session, session_options
from tests.server import random_bundle
from tests.server.random_bundle import HEAD_SIZE, HEADS, LAYERS, LONGEST, SIZE, VOCABULARY


def filled_arena(runtime: ModelRuntime, width: int, lengths: list[int]) -> Arena:
    arena = Arena(runtime.spec, width, 8)
    draw = np.random.default_rng(0)
    input_ids = np.zeros((len(lengths), max(lengths)), np.int64)
    for row, length in zip(input_ids, lengths, strict=True):
        row[:length] = draw.integers(4, VOCABULARY, length)
    counts = np.array(lengths, np.int32)
    arena.admit(runtime.encoder.encode(input_ids, counts), counts)
    return arena


def test_spec_says_what_the_manifest_says(runtime: ModelRuntime) -> None:
    spec = runtime.spec
    assert (spec.decoder_layers, spec.decoder_heads, spec.head_size) == (LAYERS, HEADS, HEAD_SIZE)
    assert (spec.vocabulary_size, spec.cache_dtype, spec.beam_widths) == (VOCABULARY, np.float32, (1, 2, 4))
    assert (spec.pad_id, spec.eos_id, spec.decoder_start_id) == (0, 3, 2)
    assert (spec.max_source_tokens, spec.max_target_tokens) == (LONGEST, LONGEST)


def test_encoder_gives_a_pair_per_decoder_layer(runtime: ModelRuntime) -> None:
    cross = runtime.encoder.encode(np.full((3, 5), 7, np.int64), np.array([5, 2, 1], np.int32))
    assert [array.shape for array in cross] == [(3, HEADS, 5, HEAD_SIZE)] * (2 * LAYERS)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_decoder_works_in_place_and_leaves_the_cross_attention_cache_as_it_was(
    runtime: ModelRuntime, width: int
) -> None:
    arena = filled_arena(runtime, width, [5, 1, 9])
    decoder = runtime.decoder(width)
    cross = arena.buffers(0, 3).inputs["cross_key_1"].copy()
    arena.logits[:] = np.nan
    for step in range(3):
        arena.prepare_step()
        buffers = arena.buffers(0, 3)
        decoder.step(buffers)
        arena.finish_step()
        cache = buffers.inputs["self_key_1"]
        assert (cache[:, :, step] != 0).any()
        assert (cache[:, :, step + 1 :] == 0).all()
    assert (arena.buffers(0, 3).inputs["cross_key_1"] == cross).all()
    assert np.isfinite(arena.logits[: 3 * width]).all()
    assert np.isnan(arena.logits[3 * width :]).all()


def test_repeating_a_step_for_a_part_of_the_rows_gives_the_same_bits(runtime: ModelRuntime) -> None:
    arena = filled_arena(runtime, 2, [5, 1, 9, 4])
    decoder = runtime.decoder(2)
    for _ in range(4):
        arena.prepare_step()
        decoder.step(arena.buffers(0, 4))
        arena.finish_step()
    arena.prepare_step()
    decoder.step(arena.buffers(0, 4))
    whole = arena.logits[:8].copy()
    arena.logits[:] = 0
    for first, count in ((0, 1), (1, 2), (3, 1)):
        decoder.step(arena.buffers(first, count))
    assert (arena.logits[:8] == whole).all()


def test_binds_once_per_buffers_and_forgets_with_them(runtime: ModelRuntime) -> None:
    arena = filled_arena(runtime, 1, [5, 1])
    decoder = runtime.decoder(1)
    for _ in range(3):
        arena.prepare_step()
        decoder.step(arena.buffers(0, 2))
        arena.finish_step()
    assert len(decoder._bindings) == 1
    decoder.step(arena.buffers(1, 1))
    gc.collect()
    assert len(decoder._bindings) == 1
    arena.retire(1)
    decoder.step(arena.buffers(0, 1))
    assert len(decoder._bindings) == 2


def test_what_a_decoder_writes_itself_is_the_memory_of_its_caches(tiny_bundle_int8: Path) -> None:
    """Elsewhere it would copy all of them at every step."""
    runtime = ModelRuntime(tiny_bundle_int8, load_manifest(tiny_bundle_int8))
    arena, decoder = Arena(runtime.spec, 1, 8), runtime.decoder(1)
    ids, lengths = np.full((2, 3), 5, np.int64), np.array([3, 2], np.int32)
    arena.admit(runtime.encoder.encode(ids, lengths), lengths)
    arena.prepare_step()
    buffers = arena.buffers(0, 2)
    decoder.step(buffers)
    (bindings,) = decoder._bindings.values()
    (binding,) = bindings.values()
    names = [node.name for node in decoder._graph.shared.get_outputs()]
    written = 0
    for name, output in zip(names, binding.get_outputs(), strict=True):
        if "_written_" in name:
            cache = buffers.inputs[name.replace("_written_", "_")]
            assert output.data_ptr() == cache.ctypes.data
            assert (cache[:, :, 0] != 0).any() and (cache[:, :, 1:] == 0).all()
            written += 1
    assert written == 2 * runtime.spec.decoder_layers


def test_two_decoders_share_a_session_and_nothing_else(runtime: ModelRuntime) -> None:
    first, second = runtime.decoder(2), runtime.decoder(2)
    assert first._graph is second._graph
    arenas = [filled_arena(runtime, 2, [3, 3]) for _ in range(2)]
    for decoder, arena in zip((first, second), arenas, strict=True):
        arena.prepare_step()
        decoder.step(arena.buffers(0, 2))
    assert (arenas[0].logits[:4] == arenas[1].logits[:4]).all()


def test_a_run_alone_takes_more_threads_and_gives_the_same_bits(bundle: tuple[Path, Manifest]) -> None:
    one, many = ModelRuntime(*bundle), ModelRuntime(*bundle, solo_threads=2)
    results = []
    for runtime in (one, many):
        arena, decoder = filled_arena(runtime, 2, [9, 4]), runtime.decoder(2)
        for _ in range(3):
            arena.prepare_step()
            decoder.step(arena.buffers(0, 2))
            arena.finish_step()
        results.append(arena.logits[:4].copy())
        solo = decoder._graph._solo
        assert (solo is None) == (runtime is one)
    assert (results[0] == results[1]).all()


def test_a_run_alone_goes_without_more_threads_that_cannot_be_had(
    bundle: tuple[Path, Manifest], caplog: pytest.LogCaptureFixture
) -> None:
    runtime = ModelRuntime(*bundle, solo_threads=2)
    arena, decoder = filled_arena(runtime, 2, [9, 4]), runtime.decoder(2)
    graph, loads = decoder._graph, []

    def refuse(threads: int) -> ort.InferenceSession:
        loads.append(threads)
        raise BundleError("decoder.onnx", "cannot be loaded")

    graph._load = refuse
    for _ in range(3):
        arena.prepare_step()
        decoder.step(arena.buffers(0, 2))
        arena.finish_step()
    assert loads == [2]
    assert "going on without another session: decoder.onnx" in caplog.text


def test_a_run_alone_goes_without_files_that_are_another_bundle_s_by_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = ModelRuntime(tmp_path, random_bundle.write(tmp_path), solo_threads=2, beam_widths=(1, 2))
    (tmp_path / "aside").write_bytes((tmp_path / "decoder.beam1.onnx").read_bytes())
    (tmp_path / "aside").replace(tmp_path / "decoder.beam2.onnx")
    arena, decoder = filled_arena(runtime, 2, [9, 4]), runtime.decoder(2)
    for _ in range(2):
        arena.prepare_step()
        decoder.step(arena.buffers(0, 2))
        arena.finish_step()
    assert decoder._graph._solo is None
    assert caplog.text.count("the bundle's files have changed") == 1 + 1  # the encoder's graph, the decoder's
    unchanged = ModelRuntime(tmp_path, random_bundle.write(tmp_path))
    expected = filled_arena(unchanged, 2, [9, 4])
    for _ in range(2):
        expected.prepare_step()
        unchanged.decoder(2).step(expected.buffers(0, 2))
        expected.finish_step()
    assert (arena.logits[:4] == expected.logits[:4]).all()


def test_a_failing_run_is_an_inference_error_and_the_session_stays_usable(runtime: ModelRuntime) -> None:
    ids = np.full((1, 3), VOCABULARY + 5, np.int64)  # outside the embedding table
    with pytest.raises(InferenceError, match="encoder failed"):
        runtime.encoder.encode(ids, np.array([3], np.int32))
    assert runtime.encoder.encode(ids - 10, np.array([3], np.int32))
    arena, decoder = filled_arena(runtime, 1, [3]), runtime.decoder(1)
    arena.prepare_step()
    arena.input_ids[0] = VOCABULARY + 5
    with pytest.raises(InferenceError, match="decoder failed"):
        decoder.step(arena.buffers(0, 1))
    arena.input_ids[0] = 5
    decoder.step(arena.buffers(0, 1))


def test_the_message_of_a_failing_run_holds_no_text(runtime: ModelRuntime) -> None:
    with pytest.raises(InferenceError) as failed:
        runtime.encoder.encode(np.full((1, 3), 987654, np.int64), np.array([3], np.int32))
    assert "987654" not in str(failed.value)


def test_terminate_ends_every_run(bundle: tuple[Path, Manifest]) -> None:
    runtime = ModelRuntime(*bundle)
    arena, decoder = filled_arena(runtime, 1, [3]), runtime.decoder(1)
    arena.prepare_step()
    runtime.terminate()
    with pytest.raises(InferenceError):
        decoder.step(arena.buffers(0, 1))
    with pytest.raises(InferenceError):
        runtime.encoder.encode(np.full((1, 3), 7, np.int64), np.array([3], np.int32))


def test_wide_decoders_are_loaded_when_first_needed_or_as_asked(bundle: tuple[Path, Manifest]) -> None:
    lazy = ModelRuntime(*bundle)
    assert set(lazy._decoders) == {1}
    lazy.decoder(4)
    assert set(lazy._decoders) == {1, 4}
    assert set(ModelRuntime(*bundle, beam_widths=(1, 2))._decoders) == {1, 2}


def broken(bundle: tuple[Path, Manifest], **changes: object) -> Manifest:
    manifest = bundle[1].model_dump()
    manifest["architecture"].update(changes)
    return Manifest.model_validate(manifest)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vocab_size": VOCABULARY + 1}, "logits width is 50, the manifest says 51"),
        ({"decoder_heads": 2, "head_dim": SIZE // 2}, "heads is 4, the manifest says 2"),
        ({"decoder_layers": LAYERS + 1}, "the graph has no tensor cross_key_2"),
    ],
)
def test_a_graph_that_is_not_the_manifests_is_refused(
    bundle: tuple[Path, Manifest], changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(BundleError) as refused:
        ModelRuntime(bundle[0], broken(bundle, **changes))
    assert reason in str(refused.value)
    assert "decoder.beam1.onnx" in str(refused.value)


def test_a_graph_that_does_not_load_is_refused_in_one_line(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    for file in ("encoder.onnx", "decoder.beam4.onnx"):
        (tmp_path / file).write_bytes(b"not a graph")
    with pytest.raises(BundleError) as refused:
        ModelRuntime(tmp_path, manifest)
    assert "encoder.onnx" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_wide_graph_that_does_not_load_fails_its_sentences_not_the_engine(tmp_path: Path) -> None:
    manifest = random_bundle.write(tmp_path)
    (tmp_path / "decoder.beam4.onnx").write_bytes(b"not a graph")
    runtime = ModelRuntime(tmp_path, manifest)
    with pytest.raises(InferenceError):
        runtime.decoder(4)
    with pytest.raises(BundleError):
        ModelRuntime(tmp_path, manifest, beam_widths=(1, 4))


def test_the_slow_fusion_is_kept_out_and_the_others_are_not(tmp_path: Path) -> None:
    random_bundle.write(tmp_path)
    options = session_options(intra_op_threads=1)
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    open_session(tmp_path / "decoder.beam1.onnx", options, ["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert "LayerNormalization" in operators
    assert "SkipLayerNormalization" not in operators
    fused = ort.SessionOptions()
    fused.optimized_model_filepath = str(tmp_path / "fused.onnx")
    ort.InferenceSession(tmp_path / "decoder.beam1.onnx", fused, providers=["CPUExecutionProvider"])
    assert "SkipLayerNormalization" in [
        node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node
    ]
