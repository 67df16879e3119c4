"""From a checkpoint to a bundle: what the gates let through, what they stop, and what is left behind."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

import export.pipeline
from export.assemble import WEIGHTS_FILE
from export.bundle import Manifest, load_manifest, verify_bundle
from export.card import About
from export.gate_texts import ExportError, calibration_sample
from export.graph.runner import Decoded, GraphRunner
from export.int8.calibration import hash_sample
from export.pipeline import ExportOptions, export_bundle
from export.quality_gates import GateError
from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.scoring import Score
from model.tokenizer import Tokenizer
from tests.support import factories

pytestmark = pytest.mark.usefixtures("each_graph_once")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return factories.write_text(tmp_path_factory.mktemp("text"))


def open_bundle(bundle: Path, manifest: Manifest, width: int = 1) -> GraphRunner:
    tokens = manifest.special_tokens
    return GraphRunner(
        bundle / manifest.graphs.encoder,
        bundle / manifest.graphs.decoders[str(width)],
        start_id=tokens.decoder_start_id,
        eos_id=tokens.eos_id,
        pad_id=tokens.pad_id,
        beam_width=width,
    )


def test_an_fp32_bundle_states_what_was_measured(tiny_bundle: Path) -> None:
    manifest = load_manifest(tiny_bundle)
    assert manifest.parity is not None
    assert manifest.parity.sentences == manifest.parity.same_tokens == 220
    assert manifest.parity.largest_logit_difference <= 1e-4
    assert manifest.quality is not None
    assert manifest.quality.scores["fp32"].bleu > 80
    assert "tok:13a" in manifest.quality.signature_bleu
    assert manifest.quality.signature_chrf.startswith("nrefs:1")
    assert manifest.calibration is None
    assert manifest.batch_invariant


def test_of_a_large_model_fewer_sentences_are_enough(
    tiny_checkpoint: Path, text: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export.pipeline, "_LARGE_PARAMETERS", 1000)
    lines: list[str] = []
    options = ExportOptions("fp32", [text[0]], [text[1]], beam_widths=(1, 3))
    manifest = export_bundle(tiny_checkpoint, tmp_path / "out", options, lines.append)
    assert lines[0].startswith("this takes about ")
    assert lines[0].endswith(f"GB beside {tmp_path / 'out'}")
    assert manifest.parity is not None
    assert manifest.parity.sentences == manifest.parity.same_tokens == 300 // 8
    assert len(manifest.golden) >= 5
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left of the graphs"


def test_an_int8_bundle_states_its_loss_and_its_calibration(tiny_bundle_int8: Path) -> None:
    manifest = load_manifest(tiny_bundle_int8)
    assert manifest.quality is not None
    assert set(manifest.quality.scores) == {"fp32", "int8"}
    assert manifest.quality.bleu_loss <= 2
    assert manifest.quality.loss_accepted_by_flag == (manifest.quality.bleu_loss > 0.5)
    assert manifest.calibration is not None
    assert manifest.calibration.weight_bits in (7, 8)
    assert manifest.calibration.sample_sha256 == hash_sample(factories.parallel_text(220, 7)[0])
    assert manifest.batch_invariant


def test_int8_is_a_fraction_of_fp32(tiny_bundle: Path, tiny_bundle_int8: Path) -> None:
    int8, fp32 = ((bundle / WEIGHTS_FILE).stat().st_size for bundle in (tiny_bundle_int8, tiny_bundle))
    assert int8 < 0.5 * fp32


def test_a_joint_table_of_embeddings_is_stored_once(tiny_bundle: Path) -> None:
    architecture = load_manifest(tiny_bundle).architecture
    size = architecture.vocab_size * architecture.d_model * 4
    places = []
    for name in ("encoder.onnx", "decoder.onnx"):
        graph = onnx.load(tiny_bundle / name, load_external_data=False).graph
        external = [
            {entry.key: entry.value for entry in tensor.external_data} for tensor in graph.initializer
        ]
        places += [
            (entry["location"], entry["offset"]) for entry in external if entry.get("length") == str(size)
        ]
    assert len(places) >= 2
    assert len(set(places)) < len(places)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_golden_sentences_come_out_alone_and_together(request: pytest.FixtureRequest, precision: str) -> None:
    bundle = request.getfixturevalue("tiny_bundle" if precision == "fp32" else "tiny_bundle_int8")
    manifest = load_manifest(bundle)
    assert len(manifest.golden) >= 5
    tokenizer = Tokenizer.load(bundle / manifest.tokenizer.source)
    runner = open_bundle(bundle, manifest)
    eos = manifest.special_tokens.eos_id
    together = {
        result.index: result for result in runner.greedy([golden.source_ids for golden in manifest.golden])
    }
    for index, golden in enumerate(manifest.golden):
        assert [*tokenizer.encode(golden.source), eos] == list(golden.source_ids)
        alone = next(runner.greedy([golden.source_ids]))
        assert alone.finished
        assert alone.tokens == list(golden.target_ids) == together[index].tokens
        assert tokenizer.decode(alone.tokens) == golden.target


@pytest.mark.parametrize("width", [2, 4])
def test_every_beam_graph_of_a_bundle_starts_like_greedy(tiny_bundle_int8: Path, width: int) -> None:
    manifest = load_manifest(tiny_bundle_int8)
    sources = [golden.source_ids for golden in manifest.golden]
    narrow = {
        result.index: result.tokens for result in open_bundle(tiny_bundle_int8, manifest).greedy(sources)
    }
    wide = {
        result.index: result.tokens
        for result in open_bundle(tiny_bundle_int8, manifest, width).greedy(sources)
    }
    assert narrow == wide


def test_the_card_and_the_notice_name_scores_and_data(tiny_bundle_int8: Path) -> None:
    card = (tiny_bundle_int8 / "MODEL_CARD.md").read_text(encoding="utf-8")
    for expected in ("tiny-en-de", "| int8 |", "| fp32 |", "BLEU", "Sentences made for the tests.", "dev.en"):
        assert expected in card
    assert "Sentences made for the tests." in (tiny_bundle_int8 / "NOTICE").read_text(encoding="utf-8")


def test_an_existing_bundle_is_refused_and_left_alone(
    tmp_path: Path, tiny_checkpoint: Path, tiny_bundle: Path, text: tuple[Path, Path]
) -> None:
    out = Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))
    with pytest.raises(ExportError, match="--force"):
        export_bundle(tiny_checkpoint, out, ExportOptions(dev_source=[text[0]]))
    assert verify_bundle(out) == load_manifest(tiny_bundle)


def test_force_replaces_a_bundle_and_leaves_nothing_behind(
    tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path]
) -> None:
    out = tmp_path / "bundle"
    out.mkdir()
    for name in ("manifest.json", "old"):
        (out / name).write_bytes(b"")
    (tmp_path / ".bundle.partial").mkdir()
    own = factories.parallel_text(12, seed=99)[0]
    golden = tmp_path / "golden.en"
    golden.write_text("".join(f"{sentence}\n" for sentence in own), encoding="utf-8")
    options = ExportOptions(
        precision="fp32",
        dev_source=[text[0]],
        golden=[golden],
        beam_widths=(1,),
        force=True,
        about=About("2.5", notes="## Weak spots\n\nTom."),
    )
    lines: list[str] = []
    manifest = export_bundle(tiny_checkpoint, out, options, lines.append)
    assert verify_bundle(out) == manifest
    assert manifest.version == "2.5"
    assert manifest.quality is None
    assert "## Weak spots" in (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert {sentence.source for sentence in manifest.golden} <= set(own)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "golden.en"]
    assert lines[-1].startswith("wrote ")


def test_heads_that_cannot_be_decoded_are_refused(
    tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path]
) -> None:
    checkpoint = Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))
    config = checkpoint / "config.json"
    changed = config.read_text(encoding="utf-8").replace('"decoder_heads": 2', '"decoder_heads": 4')
    config.write_text(changed, encoding="utf-8")
    with pytest.raises(ExportError, match="d_model 48 over decoder_heads 4 makes heads of 12; ONNX"):
        export_bundle(checkpoint, tmp_path / "bundle", ExportOptions(dev_source=[text[0]]))


def test_a_purpose_is_one_line(tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path]) -> None:
    for purpose in ("two\nlines", "x" * 301):
        options = ExportOptions(precision="fp32", dev_source=[text[0]], about=About(purpose=purpose))
        with pytest.raises(ExportError, match="--purpose: one line of at most 300 characters"):
            export_bundle(tiny_checkpoint, tmp_path / "bundle", options)


def test_text_is_needed(tmp_path: Path, tiny_checkpoint: Path) -> None:
    with pytest.raises(ExportError, match="--dev-source"):
        export_bundle(tiny_checkpoint, tmp_path / "bundle", ExportOptions())
    alone = ExportOptions(dev_source=[tmp_path / "dev.en"], attention=True)
    with pytest.raises(ExportError, match="--attention needs text for a lexicon"):
        export_bundle(tiny_checkpoint, tmp_path / "bundle", alone)


@pytest.mark.parametrize("allowed", [False, True])
def test_without_references_int8_is_compared_with_fp32(
    tmp_path: Path,
    tiny_checkpoint: Path,
    text: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,
) -> None:
    monkeypatch.setattr(export.pipeline, "MIN_AGREEMENT_BLEU", 100.5)
    out = tmp_path / "bundle"
    options = ExportOptions(dev_source=[text[0]], beam_widths=(1,), allow_quality_loss=allowed)
    if not allowed:
        with pytest.raises(GateError, match=r"against those of fp32, less than 100\.5; --allow-quality-loss"):
            export_bundle(tiny_checkpoint, out, options)
        assert not list(tmp_path.iterdir())
        return
    manifest = export_bundle(tiny_checkpoint, out, options)
    assert manifest.quality is None
    assert manifest.agreement is not None
    assert manifest.agreement.loss_accepted_by_flag
    assert manifest.agreement.sentences == 220
    assert manifest.agreement.same_tokens > 110
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "Against the translations of fp32" in card


def test_too_few_sentences_prove_nothing(tmp_path: Path, tiny_checkpoint: Path) -> None:
    source, target = factories.write_text(tmp_path, count=199)
    options = ExportOptions(precision="fp32", dev_source=[source], dev_target=[target], beam_widths=(1,))
    with pytest.raises(GateError, match="at least 200 sentences, there are 199"):
        export_bundle(tiny_checkpoint, tmp_path / "bundle", options)


def test_a_sentence_that_the_model_cannot_take_is_named(tmp_path: Path, tiny_checkpoint: Path) -> None:
    source, _ = factories.write_text(tmp_path)
    source.write_text(source.read_text(encoding="utf-8") + "x" * 400 + "\n", encoding="utf-8")
    with pytest.raises(ExportError, match=r"dev\.en:221: \d+ tokens, the model takes 128"):
        export_bundle(tiny_checkpoint, tmp_path / "bundle", ExportOptions(dev_source=[source]))


def test_a_directory_that_is_no_checkpoint(tmp_path: Path, text: tuple[Path, Path]) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        export_bundle(tmp_path, tmp_path / "bundle", ExportOptions(dev_source=[text[0]]))


@pytest.mark.parametrize("allowed", [False, True])
def test_a_loss_over_half_a_point_needs_the_flag_and_is_recorded(
    tmp_path: Path,
    tiny_checkpoint: Path,
    text: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,
) -> None:
    scores = iter(
        [Score(30.0, 50.0, "b", "c", 220), Score(29.49, 49.8, "b", "c", 220), Score(100, 100, "b", "c", 1)]
    )
    monkeypatch.setattr(export.pipeline, "score", lambda hypotheses, references: next(scores))
    out = tmp_path / "bundle"
    options = ExportOptions(
        dev_source=[text[0]],
        dev_target=[text[1]],
        weight_bits=7,
        beam_widths=(1,),
        allow_quality_loss=allowed,
    )
    if not allowed:
        with pytest.raises(
            GateError, match=r"int8 loses 0\.51 BLEU on dev\.en, more than 0\.5; --allow-quality-loss"
        ):
            export_bundle(tiny_checkpoint, out, options)
        assert not list(tmp_path.iterdir())
        return
    manifest = export_bundle(tiny_checkpoint, out, options)
    assert manifest.quality is not None
    assert manifest.quality.loss_accepted_by_flag
    assert manifest.quality.bleu_loss == pytest.approx(0.51)
    assert "accepted by an explicit flag" in (out / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_weights_that_differ_from_pytorch_are_stopped(
    tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = GraphRunner.forced

    def biased(
        self: GraphRunner, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> object:
        return [logits + 2e-4 for logits in honest(self, sources, targets)]

    monkeypatch.setattr(GraphRunner, "forced", biased)
    with pytest.raises(GateError, match="logits differ from PyTorch by 2"):
        export_bundle(
            tiny_checkpoint, tmp_path / "b", ExportOptions("fp32", dev_source=[text[0]], beam_widths=(1,))
        )


def test_tokens_that_differ_from_pytorch_are_stopped(
    tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(runner: GraphRunner, sources: Sequence[Sequence[int]], _: object) -> list[Decoded]:
        return [Decoded(index, [5, 5, 5], finished=True) for index in range(len(sources))]

    monkeypatch.setattr("export.quality_gates.decode_all", wrong)
    with pytest.raises(GateError, match="agree with PyTorch on 0 of 220"):
        export_bundle(
            tiny_checkpoint, tmp_path / "b", ExportOptions("fp32", dev_source=[text[0]], beam_widths=(1,))
        )


def test_killed_while_writing_leaves_the_old_bundle(
    tmp_path: Path, tiny_checkpoint: Path, text: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "bundle"
    out.mkdir()

    def fail(*_: object, **__: object) -> Manifest:
        raise OSError("no space left on device")

    monkeypatch.setattr(export.pipeline, "complete", fail)
    options = ExportOptions("fp32", dev_source=[text[0]], beam_widths=(1,), force=True)
    with pytest.raises(OSError, match="no space"):
        export_bundle(tiny_checkpoint, out, options)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_calibration_states_the_sentences_that_were_used(tmp_path: Path, tiny_checkpoint: Path) -> None:
    file, lines = tmp_path / "text.en", ["Tom sleeps.", "Tom reads."]
    file.write_text(("x" * 400 + "\n").join(f"{line}\n" for line in lines), encoding="utf-8")
    sample = calibration_sample(load_checkpoint(tiny_checkpoint), [file], 512)
    assert (sample.name, sample.lines, len(sample.rows), len(sample.prefixes)) == ("text.en", lines, 2, 2)
