"""Training end to end on a toy language: words are translated one by one."""

import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.evaluation import translate
from model.recipe import RecipeError
from model.training.trainer import Trainer
from tests.support.toy_training import PAIRS, losses, write_corpus


def test_learns_the_toy_language_and_averages(recipe: Callable[..., Path], tmp_path: Path) -> None:
    write_corpus(tmp_path, train=1500)  # four seeds: 92 to 97 BLEU; with 600 pairs 82 to 87
    file = recipe(
        max_updates=600, validate_every=150, cooldown_updates=200, keep_checkpoints=3, average_checkpoints=3
    )
    chosen = Trainer(file, tmp_path / "run", quiet=True).run()
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert kept == ["checkpoint-0000300", "checkpoint-0000450", "checkpoint-0000600"]
    checkpoint = load_checkpoint(chosen)
    assert checkpoint.config.metrics["bleu"] > 85
    lines = (tmp_path / "dev.en").read_text().splitlines()
    texts = translate(checkpoint.model, checkpoint.tokenizer, lines, checkpoint.config.special_tokens)
    right = sum(
        text == " ".join(PAIRS[word] for word in line.split())
        for text, line in zip(texts, lines, strict=True)
    )
    assert right >= 0.8 * len(lines)
    assert {path.name for path in chosen.iterdir()} == {
        "config.json", "model.safetensors", "recipe.toml", "source.spm",
    }  # fmt: skip
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_killed_and_resumed_training_gives_the_same_losses(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    file = recipe(max_updates=60, validate_every=20)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "dragoman.py", "train", str(file), "--out"]
    subprocess.run([*command, str(whole)], check=True)

    process = subprocess.Popen([*command, str(broken)])
    deadline = time.monotonic() + 120
    while not (broken / "checkpoint-0000020").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # a few updates into the next stretch
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (broken / "average").exists()
    subprocess.run([*command, str(broken)], check=True)

    assert losses(broken) == losses(whole)
    ours, theirs = (load_checkpoint(run / "checkpoint-0000060").model.state_dict() for run in (whole, broken))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_sigterm_leaves_a_checkpoint_to_resume_from(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(max_updates=100_000, validate_every=100_000)
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "dragoman.py", "train", str(file), "--out", str(run)],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    log = run / "metrics.jsonl"
    while not (log.exists() and log.read_text().count("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "same command" in errors
    saved = [path.name for path in run.glob("checkpoint-*")]
    assert len(saved) == 1
    load_checkpoint(run / saved[0])


def test_gradient_accumulation_equals_one_large_batch(recipe: Callable[..., Path], tmp_path: Path) -> None:
    trainer = Trainer(recipe(max_updates=1, optimizer="sgd"), tmp_path / "run", quiet=True)
    trainer.model.eval()
    batches = list(trainer.data.in_order(400))[:4]
    state = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer._update(batches)
    together = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.model.load_state_dict(state)
    trainer.progress.update = 0
    tokens = sum(batch.target_tokens for batch in batches)
    total = sum(trainer.batch_loss(batch, 0.1)[0] for batch in batches) / tokens
    total.backward()
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
    rate = trainer.optimizer.param_groups[0]["lr"]
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(state[name] - rate * parameter.grad, together[name])


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "adagrad"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_optimiser_lowers_the_loss_and_resumes(
    recipe: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    optimizer: str,
    precision: str,
) -> None:
    # In every precision, also where it is slow.
    monkeypatch.setattr("model.training.trainer.fast_precision", lambda wanted, device: wanted)
    rate = {"sgd": 0.5, "adagrad": 0.05}.get(optimizer, 0.005)
    options = {"optimizer": optimizer, "precision": precision, "learning_rate": rate, "momentum": 0.9}
    for updates in (20, 40):
        file = recipe(**options, max_updates=updates, validate_every=20, average_checkpoints=0)
        Trainer(file, tmp_path / "run", quiet=True).run()
    loss = losses(tmp_path / "run")
    assert loss["valid", 40] < loss["valid", 20] < 5.8


@pytest.mark.parametrize("joint", [True, False])
def test_a_second_stage_starts_from_the_first(
    recipe: Callable[..., Path], tmp_path: Path, joint: bool
) -> None:
    file = recipe(max_updates=120, validate_every=60, average_checkpoints=0)
    if not joint:
        file.write_text(file.read_text().replace("[vocabulary]", "[vocabulary]\njoint = false"))
        file.write_text(file.read_text().replace("size = 345", "size = 310"))
    best = Trainer(file, tmp_path / "first", quiet=True).run()
    before = load_checkpoint(best).config.metrics["loss"]

    options = {"initialise_from": "first/best", "learning_rate": 1e-6, "average_checkpoints": 0}
    file = recipe(**options, max_updates=2, validate_every=2)
    file.write_text(file.read_text().replace("size = 345", "size = 500"))  # not looked at
    second = load_checkpoint(Trainer(file, tmp_path / "second", quiet=True).run())
    assert second.config.updates == 2
    assert second.config.joint_vocabulary is joint
    assert second.config.metrics["loss"] == pytest.approx(before, abs=0.01)
    for name in ("source.spm",) if joint else ("source.spm", "target.spm"):
        assert (second.directory / name).read_bytes() == (best / name).read_bytes()

    (tmp_path / "first").rename(tmp_path / "moved")  # a resumed run does not read it again
    file = recipe(**options, max_updates=4, validate_every=2)
    Trainer(file, tmp_path / "second", quiet=True).run()
    assert ("valid", 4) in losses(tmp_path / "second")
    with pytest.raises(CheckpointError, match="first/best a checkpoint"):
        Trainer(file, tmp_path / "third", quiet=True)
    assert not (tmp_path / "third").exists()


def test_a_second_stage_keeps_the_architecture_and_has_its_own_directory(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    first = recipe(max_updates=2, validate_every=2, average_checkpoints=0)
    Trainer(first, tmp_path / "run", quiet=True).run()
    file = recipe(max_updates=2, initialise_from="run/best")
    text = file.read_text()
    with pytest.raises(RecipeError, match="choose another --out"):
        Trainer(file, tmp_path / "run", quiet=True)
    file.write_text(text.replace("d_model = 64", "d_model = 32"))
    with pytest.raises(CheckpointError, match=r"run/best .*: d_model is 32 in the recipe.* and 64 in"):
        Trainer(file, tmp_path / "other", quiet=True)
    file.write_text(text.replace("d_model = 64", "d_model = 64\ndropout = 0.3"))
    assert Trainer(file, tmp_path / "other", quiet=True).config.dropout == 0.3


def test_a_second_stage_need_not_say_the_architecture(recipe: Callable[..., Path], tmp_path: Path) -> None:
    first = recipe(max_updates=2, validate_every=2, average_checkpoints=0)
    first.write_text(
        first.read_text().replace("d_model = 64", "d_model = 64\nactivation = 'gelu'\ndropout = 0.2")
    )
    before = Trainer(first, tmp_path / "run", quiet=True)
    before.run()
    file = recipe(max_updates=2, validate_every=2, average_checkpoints=0, initialise_from="run/best")
    file.write_text(re.sub(r"(?s)\[model\].*?\n\[", "[model]\nattention_dropout = 0.1\n[", file.read_text()))
    second = Trainer(file, tmp_path / "second", quiet=True)
    assert second.config == before.config.model_copy(update={"attention_dropout": 0.1})
    second.run()
    (tmp_path / "run").rename(tmp_path / "moved")  # its own checkpoints say it now
    file.write_text(file.read_text().replace("max_updates = 2", "max_updates = 4"))
    resumed = Trainer(file, tmp_path / "second", quiet=True)
    assert (resumed.config, resumed.progress.update) == (second.config, 2)


def test_validates_after_every_epoch_and_uses_all_of_it(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(
        max_updates=100, max_epochs=3, validate_every="epoch", accumulate=7, stop_metric="smoothed_loss",
        keep_checkpoints=2, average_checkpoints=2,
    )  # fmt: skip
    trainer = Trainer(file, tmp_path / "run", quiet=True)
    epochs = [list(trainer.data.epoch(1, number, 400)) for number in range(3)]
    chosen = trainer.run()
    ends = list(itertools.accumulate(-(-len(epoch) // 7) for epoch in epochs))  # what is left is an update
    assert any(len(epoch) % 7 for epoch in epochs)
    assert [update for kind, update in losses(tmp_path / "run") if kind == "valid"] == ends
    assert trainer.progress.kept == [f"checkpoint-{update:07d}" for update in ends[1:]]
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        if record["kind"] == "valid":
            assert record["smoothed_loss"] > record["loss"]
    assert load_checkpoint(chosen).config.metrics["smoothed_loss"] <= -trainer.progress.best


def test_what_an_interruption_saved_is_replaced_and_never_averaged(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    options = {"validate_every": 4, "average_checkpoints": 3, "keep_checkpoints": 3}
    run = tmp_path / "run"
    trainer = Trainer(recipe(max_updates=12, **options), run, quiet=True)
    updates = trainer._updates()
    for _ in range(2):
        trainer._update(next(updates)[0])
    trainer._save({})
    assert [path.name for path in run.glob("checkpoint-*")] == ["checkpoint-0000002"]
    resumed = Trainer(recipe(max_updates=12, **options), run, quiet=True)
    assert resumed.progress.update == 2
    resumed.run()
    expected = [f"checkpoint-{update:07d}" for update in (4, 8, 12)]
    assert resumed.progress.kept == sorted(path.name for path in run.glob("checkpoint-*")) == expected


def test_what_an_interruption_saved_last_is_validated(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file, run = recipe(max_updates=2, average_checkpoints=0), tmp_path / "run"
    trainer = Trainer(file, run, quiet=True)
    trainer._update(next(trainer._updates())[0])
    trainer._stop = True
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert not (run / "best").exists()
    assert load_checkpoint(Trainer(file, run, quiet=True).run()).config.updates == 2


def test_the_best_is_there_before_a_checkpoint_says_so(
    recipe: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(recipe(max_updates=2, validate_every=2), tmp_path / "run", quiet=True)
    monkeypatch.setattr(trainer, "_save", lambda record: sys.exit())
    with pytest.raises(SystemExit):
        trainer.run()
    assert load_checkpoint(tmp_path / "run" / "best").config.updates == 2


def test_the_seed_of_the_command_line_wins(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(max_updates=1)
    first, again, other = (
        Trainer(file, tmp_path / str(number), seed=seed, quiet=True)
        for number, seed in enumerate((1, None, 2))
    )
    weights = [trainer.model.projection.weight for trainer in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_stops_early_when_nothing_gets_better(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(max_updates=1000, validate_every=2, patience=3, optimizer="sgd", learning_rate=1e-9)
    Trainer(file, tmp_path / "run", quiet=True).run()
    assert max(update for _, update in losses(tmp_path / "run")) <= 40


def test_a_broken_corpus_stops_before_anything_is_written(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    file = recipe(max_updates=10)
    (tmp_path / "dev.de").write_bytes(b"ein\n\xff\n")
    with pytest.raises(ValueError, match=r"dev\.de:2: not UTF-8"):
        Trainer(file, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_dev_sentence_that_the_model_cannot_take_stops_before_training(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    file = recipe(max_updates=10)
    for side in ("en", "de"):
        with (tmp_path / f"dev.{side}").open("a") as stream:
            stream.write("xyz " * 40 + "\n")
    with pytest.raises(RecipeError, match=r"1 dev pairs have 32 tokens or more"):
        Trainer(file, tmp_path / "run", quiet=True)


def test_a_sentence_is_refused_rather_than_cut(recipe: Callable[..., Path], tmp_path: Path) -> None:
    trainer = Trainer(recipe(max_updates=1), tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"sentence 2 has \d+ tokens, the model takes 32"):
        translate(trainer.model.eval(), trainer.tokenizer, ["the cat", "xyz " * 40], trainer.special)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[vocabulary]", "[vocabularies]"), "vocabularies"),
        (("d_model = 64", "d_model = 65"), r"\[model\].*not a multiple"),
        (("decoder_heads = 2", "decoder_heads = 16"), r"\[model\]: .* makes heads of 4; .* multiples of 8"),
        (("d_model = 64", "width = 64"), r"\[model\].*width"),
        (("learning_rate = 0.004", "learning_rate = -1"), "training.learning_rate"),
        (('name = "toy"', "name = toy"), "not TOML"),
    ],
)
def test_a_wrong_recipe_says_where(
    recipe: Callable[..., Path], tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = recipe(max_updates=10)
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(RecipeError, match=message) as error:
        Trainer(file, tmp_path / "run", quiet=True)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_ffn_dim": 2**20, "d_model": 2**16}, r"model\.safetensors: does not fit"),
        ({"decoder_layers": 2**40}, r"config\.json: .*decoder_layers"),
    ],
)
def test_what_a_config_asks_for_is_not_allocated_before_it_is_compared(
    tiny_checkpoint: Path, tmp_path: Path, change: dict[str, int], message: str
) -> None:
    """Layers of half a terabyte."""
    changed = Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))
    values = json.loads((changed / "config.json").read_text())
    values["model"].update(change)
    (changed / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(changed)


def test_damaged_checkpoints_are_named(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(max_updates=4, validate_every=2, average_checkpoints=0)
    best = Trainer(file, tmp_path / "run", quiet=True).run()
    weights = best / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged"):
        load_checkpoint(best)
    (best / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json: not JSON"):
        load_checkpoint(best)
    with pytest.raises(CheckpointError, match=r"is .* a checkpoint"):
        load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"is .*model\.safetensors a checkpoint"):
        load_checkpoint(weights)


def test_frozen_parts_keep_their_weights(recipe: Callable[..., Path], tmp_path: Path) -> None:
    first = recipe(max_updates=2, validate_every=2, average_checkpoints=0)
    start = load_checkpoint(Trainer(first, tmp_path / "run", quiet=True).run())
    options: dict[str, object] = {
        "initialise_from": "run/best",
        "validate_every": 3,
        "average_checkpoints": 0,
    }
    options["freeze"] = ["encoder", "decoder.0.self_attention", "source_embedding"]  # tied to the projection
    out = tmp_path / "second"
    Trainer(recipe(max_updates=3, **options), out, quiet=True).run()
    Trainer(recipe(max_updates=6, **options), out, quiet=True).run()  # goes on
    end = load_checkpoint(out / "checkpoint-0000006")
    before, after = start.model.state_dict(), end.model.state_dict()
    same = {name for name, value in before.items() if torch.equal(value, after[name])}
    frozen = {name for name in before if name.startswith(("encoder.", "decoder.0.self_attention."))}
    assert frozen | {"projection.weight"} <= same
    assert {name for name in before if name.startswith("decoder.0.feed_forward")}.isdisjoint(same)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["enc"], "training.freeze: the model has no part enc; its parts are source_embedding, .*decoder"),
        (
            ["encoder", "decoder", "source_embedding", "encoder_norm", "decoder_norm", "projection"],
            "nothing is left to train",
        ),
    ],
)
def test_parts_that_cannot_be_frozen_are_named(
    recipe: Callable[..., Path], tmp_path: Path, parts: list[str], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        Trainer(recipe(max_updates=1, freeze=parts), tmp_path / "run", quiet=True)


def test_a_vocabulary_of_other_text_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    Trainer(recipe(max_updates=1, average_checkpoints=0), tmp_path / "run", quiet=True).run()
    second = recipe(max_updates=1, initialise_from="run/best")
    for name in ("train.en", "dev.en"):
        file = tmp_path / name
        file.write_text(file.read_text().translate(str.maketrans("aeiou", "αειου")))
    with pytest.raises(RecipeError, match=r"was learnt for other text: \d\d\.\d% of this corpus' pieces"):
        Trainer(second, tmp_path / "second", quiet=True)
