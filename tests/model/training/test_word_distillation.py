"""A student that learns its teacher's distribution word by word."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import kl_div, mse_loss

from model.checkpoint import CheckpointError, load_checkpoint
from model.recipe import RecipeError, load_recipe
from model.training.loss import teacher_loss
from model.training.trainer import Trainer


def test_cross_entropy_has_the_gradient_of_the_divergence() -> None:
    torch.manual_seed(0)
    logits, taught = torch.randn(7, 11, requires_grad=True), torch.randn(7, 11)
    for temperature in (1.0, 2.5):
        loss = teacher_loss(logits, taught, "cross_entropy", temperature)
        soft = [torch.log_softmax(x / temperature, -1) for x in (logits, taught)]
        expected = temperature**2 * kl_div(soft[0], soft[1], reduction="sum", log_target=True)
        entropy = -(temperature**2) * (soft[1].exp() * soft[1]).sum()
        torch.testing.assert_close(loss, expected + entropy)
        ours, theirs = (
            torch.autograd.grad(value, [logits], retain_graph=True)[0] for value in (loss, expected)
        )
        torch.testing.assert_close(ours, theirs)


def test_logits_are_compared_but_for_a_constant() -> None:
    torch.manual_seed(0)
    logits, taught = torch.randn(7, 11, requires_grad=True), torch.randn(7, 11)
    loss = teacher_loss(logits, taught, "logits")
    centered = [x - x.mean(-1, keepdim=True) for x in (logits, taught)]
    torch.testing.assert_close(loss, 7 * mse_loss(*centered))
    torch.testing.assert_close(teacher_loss(logits + 3, taught, "logits"), loss)
    assert float(teacher_loss(taught + 5, taught, "logits")) < 1e-9


@pytest.fixture
def teacher(recipe: Callable[..., Path], tmp_path: Path) -> Path:
    options = {"max_updates": 150, "validate_every": 150, "cooldown_updates": 50, "average_checkpoints": 0}
    return Trainer(recipe(**options), tmp_path / "teacher", quiet=True).run()


def student(recipe: Callable[..., Path], section: str) -> Path:
    options = {"max_updates": 100, "validate_every": 100, "average_checkpoints": 0, "label_smoothing": 0.0}
    file = recipe(**options)
    text = file.read_text().replace("[vocabulary]\n", '[vocabulary]\npath = "teacher"\n')
    file.write_text(
        text.replace("d_model = 64", "d_model = 32").replace("[training]", f"{section}\n[training]")
    )
    return file


def test_a_student_comes_nearer_to_its_teacher(
    recipe: Callable[..., Path], tmp_path: Path, teacher: Path
) -> None:
    sections = {
        "text alone": "",
        "cross_entropy": '[distillation]\nteacher = "teacher/best"\nweight = 1.0',
        "logits": '[distillation]\nteacher = "teacher/best"\nloss = "logits"\nweight = 1.0',
    }
    distances = {}
    for name, section in sections.items():
        trainer = Trainer(student(recipe, section), tmp_path / name, quiet=True)
        before = load_checkpoint(teacher).model.state_dict()
        trainer.run()
        model, taught = trainer.model.eval(), load_checkpoint(teacher).model
        assert all(torch.equal(value, before[key]) for key, value in taught.state_dict().items())
        batch = next(trainer.data.in_order(2000))
        given = (batch.source_ids, batch.source_lengths, batch.target_in)
        real = batch.target_out != 0
        with torch.no_grad():
            logits, theirs = model(*given)[real], taught(*given)[real]
            distances[name] = {
                kind: float(teacher_loss(logits, theirs, kind) - teacher_loss(theirs, theirs, kind))
                for kind in ("cross_entropy", "logits")
            }
    assert distances["cross_entropy"]["cross_entropy"] < 0.98 * distances["text alone"]["cross_entropy"]
    assert distances["logits"]["logits"] < 0.9 * distances["text alone"]["logits"]


def test_weight_mixes_both_losses(recipe: Callable[..., Path], tmp_path: Path, teacher: Path) -> None:
    losses = {}
    for weight in (0.25, 1.0):
        section = f'[distillation]\nteacher = "teacher/best"\nweight = {weight}'
        trainer = Trainer(student(recipe, section), tmp_path / str(weight), quiet=True)
        batch = next(trainer.data.in_order(2000))
        trainer.batch_loss.train()
        trainer.model.eval()  # no dropout
        losses[weight], nll = (float(part.detach()) for part in trainer.batch_loss(batch, 0.0))
        assert float(trainer.batch_loss.eval()(batch, 0.0)[0]) == pytest.approx(nll, rel=1e-5)
    assert losses[0.25] == pytest.approx(0.75 * nll + 0.25 * losses[1.0], rel=1e-5)


def test_another_vocabulary_is_refused(recipe: Callable[..., Path], tmp_path: Path, teacher: Path) -> None:
    file = student(recipe, '[distillation]\nteacher = "teacher/best"')
    file.write_text(file.read_text().replace('path = "teacher"\n', "").replace("size = 345", "size = 350"))
    with pytest.raises(CheckpointError, match="best has another source vocabulary; take it over"):
        Trainer(file, tmp_path / "run", quiet=True)
    file = student(recipe, '[distillation]\nteacher = "teacher/best"\nloss = "states"')
    with pytest.raises(RecipeError, match=r"distillation\.loss"):
        load_recipe(file)
