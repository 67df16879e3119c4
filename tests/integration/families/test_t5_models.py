"""T5 and its kin, and Pegasus: imported, they read and write what transformers does."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers

from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import load_checkpoint
from server.engine.options import DecodingOptions
from tests.integration import fairseq, scripts
from tests.integration.hugging_face import Reference, Served, edit_json, fp32_options

NAMES = ImportNames(sources=["en"], targets=["de"])
SMALL = {"d_model": 48, "d_kv": 16, "d_ff": 80, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
KINDS: dict[str, dict[str, Any]] = {
    "t5": {"relative_attention_max_distance": 20, "relative_attention_num_buckets": 12},
    "flan": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "mt5": {"feed_forward_proj": "gated-gelu"},
    "umt5": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_heads": 3},
    "byt5": {"feed_forward_proj": "gated-silu"},
    "pegasus": {},
}
# Of random weights whose targets differ and end by themselves.
SEEDS = {"t5": 1, "mt5": 2, "umt5": 7, "byt5": 2}
SCALE, END_SCALE = {"pegasus": 0.3}, {"pegasus": 1.5}


def learn(file: Path) -> Path:
    """Learn pieces as those of T5 and Pegasus: padding and the end first, then what is unknown."""
    with file.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(scripts.lines(3000)),
            model_writer=stream,
            vocab_size=900,
            model_type="unigram",
            character_coverage=1.0,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    return file


def write(directory: Path, kind: str, *, saved_by_transformers: bool = False, seed: int = 0) -> Path:
    """Make a model, and save it and its tokenizer as the hub or as transformers has it."""
    directory.mkdir(parents=True)
    names = {"byt5": "ByT5Tokenizer", "pegasus": "PegasusTokenizer"}
    config = {"tokenizer_class": names.get(kind, "T5Tokenizer")}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    if kind != "byt5":
        learn(directory / "spiece.model")
    if saved_by_transformers:
        cutter = transformers.AutoTokenizer.from_pretrained(directory)
        (directory / "spiece.model").unlink()
        cutter.save_pretrained(directory)
    if kind == "umt5":  # whose class has no tokenizer of its own in transformers 5
        transformers.T5Tokenizer.from_pretrained(directory).save_pretrained(directory)
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    rows = {"byt5": 384, "pegasus": 1010}.get(kind, 1024)
    if kind == "pegasus":
        model = transformers.PegasusForConditionalGeneration(
            transformers.PegasusConfig(
                vocab_size=rows,
                d_model=48,
                encoder_layers=2,
                decoder_layers=3,
                encoder_attention_heads=2,
                decoder_attention_heads=3,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_position_embeddings=256,
                scale_embedding=True,
                activation_function="relu",
            )
        )
    else:
        made = {"mt5": "MT5", "umt5": "UMT5"}.get(kind, "T5")
        settings = {**SMALL, **KINDS[kind], "vocab_size": rows, "decoder_start_token_id": 0}
        built = getattr(transformers, f"{made}Config")(**settings)
        model = getattr(transformers, f"{made}ForConditionalGeneration")(built)
    model = model.eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            if parameter.ndim == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + float("norm.weight" in name))
            else:
                scale = SCALE.get(kind, 1.0)
                std = scale if "shared" in name or "bias" in name else 0.6 * parameter.shape[1] ** -0.5
                parameter.normal_(std=std)
        if kind in ("flan", "umt5", "byt5"):
            model.lm_head.weight = torch.nn.Parameter(torch.randn(rows, 48) * 0.4)
        last = model.model.decoder.layer_norm if kind == "pegasus" else model.decoder.final_layer_norm
        last.weight.normal_()
        # Nothing but the length of its row makes the end token probable: there are no biases.
        model.get_output_embeddings().weight[1] *= END_SCALE.get(kind, 2.5)
    torch.random.set_rng_state(state)
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=0, eos_token_id=1, pad_token_id=0, max_length=30
    )
    model.save_pretrained(directory)
    return directory


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_ids_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    directory = write(tmp_path / "model", kind)
    config = import_checkpoint(directory, tmp_path / "out", NAMES)
    checkpoint, reference = load_checkpoint(tmp_path / "out"), Reference(directory)
    lines = scripts.lines(10_000 if kind == "t5" else 1000, seed=1, odd=True)
    rows = [
        [*ids, *config.special_tokens.source_suffix_ids] for ids in checkpoint.tokenizer.encode_batch(lines)
    ]
    assert rows == reference.ids(lines)
    torch.manual_seed(0)
    long = torch.randint(3, 380, (1, 190)).tolist()  # farther than any distance with a bias of its own
    for row in [*rows[:12], *long]:
        target = torch.randint(3, 380, (1, 160))
        source = torch.tensor([row])
        with torch.inference_mode():
            theirs = reference.model(input_ids=source, decoder_input_ids=target).logits
            ours = checkpoint.model(source, torch.tensor([len(row)]), target)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)
    assert config.model.tie_output == (kind in ("t5", "mt5", "pegasus"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["flan", "umt5"])
def test_writes_what_generate_writes(tmp_path: Path, kind: str) -> None:
    check_outputs(tmp_path, kind, 65)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_writes_500_that_generate_writes(tmp_path: Path, kind: str) -> None:
    check_outputs(tmp_path, kind, 500)


def check_outputs(tmp_path: Path, kind: str, count: int) -> None:
    """Compare what the engine and transformers write, greedily and with beams."""
    directory = write(tmp_path / "model", kind, seed=SEEDS.get(kind, 0))
    text = tmp_path / "dev.txt"
    text.write_text("".join(f"{line}\n" for line in fairseq.texts(210)), encoding="utf-8")
    edit_json(directory / "generation_config.json", suppress_tokens=None)
    import_model(str(directory), tmp_path / "bundle", None, NAMES, fp32_options(text), lambda line: None)
    served, reference = Served(tmp_path / "bundle"), Reference(directory)
    try:
        texts = fairseq.texts(count, seed=3)
        for beams in (1, 4):
            stop = {"early_stopping": False} if beams > 1 else {}
            options = DecodingOptions(beam_size=beams, max_decoding_length=29, **stop)
            found = served.generate(texts, options)
            assert found == reference.generate(texts, num_beams=beams)
            assert len({tuple(row) for row in found}) > 40, "targets differ"
    finally:
        served.close()


@pytest.mark.parametrize("kind", ["t5", "pegasus"])
def test_the_tokenizer_that_transformers_saves_has_the_same_ids(tmp_path: Path, kind: str) -> None:
    directory = write(tmp_path / "model", kind, saved_by_transformers=True)
    assert not (directory / "spiece.model").exists()
    config = import_checkpoint(directory, tmp_path / "out", NAMES)
    tokenizer, reference = load_checkpoint(tmp_path / "out").tokenizer, Reference(directory)
    lines = scripts.lines(1000, seed=2, odd=True)
    assert [[*ids, 1] for ids in tokenizer.encode_batch(lines)] == reference.ids(lines)
    assert config.special_tokens.unk_id == (105 if kind == "pegasus" else 2)


def test_a_model_of_another_task_needs_no_languages(tmp_path: Path) -> None:
    directory = write(tmp_path / "t5", "t5")
    config = import_checkpoint(directory, tmp_path / "out", ImportNames(task="question-answering"))
    assert (config.task, config.source_language, config.target_language) == (
        "question-answering",
        "und",
        "und",
    )
    config = import_checkpoint(write(tmp_path / "pegasus", "pegasus"), tmp_path / "out", ImportNames())
    assert config.task == "summarization"
    with pytest.raises(HuggingFaceError, match="does not name its two languages"):
        import_checkpoint(directory, tmp_path / "out", ImportNames())


def test_a_prompt_goes_before_every_source(tmp_path: Path) -> None:
    directory = write(tmp_path / "model", "t5")
    prompt = "translate to German: "
    config = import_checkpoint(directory, tmp_path / "out", ImportNames("x", ["en"], ["de"], prompt))
    tokenizer, reference = load_checkpoint(tmp_path / "out").tokenizer, Reference(directory)
    for line in scripts.lines(50):
        ids = [*config.special_tokens.source_prefix_ids, *tokenizer.encode(line), 1]
        assert ids == reference.ids([prompt + line])[0]


def test_tags_choose_the_target_and_stay_text_when_typed(tmp_path: Path) -> None:
    directory = write(tmp_path / "model", "t5")
    file = directory / "spiece.model"
    with file.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(scripts.lines(3000)),
            model_writer=stream,
            vocab_size=900,
            character_coverage=1.0,
            user_defined_symbols=["<2de>", "<2pt_BR>"],
            num_threads=1,
            minloglevel=2,
        )
    names = ImportNames(sources=["en", "fr"], targets=["de", "pt=pt_BR"])
    config = import_checkpoint(directory, tmp_path / "out", names)
    assert [one.name for one in config.directions] == ["en-de", "fr-de", "en-pt", "fr-pt"]
    tags = {one.source_prefix_ids[0] for one in config.directions}
    assert tags == {3, 4}
    tokenizer = load_checkpoint(tmp_path / "out").tokenizer
    assert not tags.intersection(tokenizer.encode("<2de> x <2pt_BR>"))
    with pytest.raises(HuggingFaceError, match="has no tag <2xx>"):
        import_checkpoint(directory, tmp_path / "out", ImportNames(sources=["en"], targets=["xx"]))
    with pytest.raises(HuggingFaceError, match="translates into de, pt_BR and so on"):
        import_checkpoint(directory, tmp_path / "out", ImportNames())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj 'gated-tanh' is not one of"),
        ({"d_kv": 10**9}, "d_kv"),
        ({"num_layers": 4}, r"encoder.block.3.layer.0.SelfAttention.q.weight is missing"),
        ({"num_layers": 1}, "is not of this architecture"),
        ({"relative_attention_num_buckets": 32}, "a table of distances has shape"),
        ({"d_ff": 81}, "does not fit the configured model"),
        ({"model_type": "longt5"}, "model_type is 'longt5'; what is read are models of the types marian"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    directory = write(tmp_path / "model", "t5")
    edit_json(directory / "config.json", **changes)
    with pytest.raises(HuggingFaceError, match=message) as caught:
        import_checkpoint(directory, tmp_path / "out", NAMES)
    assert "\n" not in str(caught.value)
