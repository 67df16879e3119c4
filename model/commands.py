"""What `dragoman train`, `corpus`, `average`, `prune`, `distill` do. Imports nothing heavy, for `--help`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import typer

from model import flags


@contextlib.contextmanager
def reported_errors(command: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn what a user can put right into one line on stderr and exit code 1; bugs keep their traceback."""
    expected: tuple[type[Exception], ...] = (ValueError, *errors)  # of recipes, corpora and checkpoints
    try:
        yield
    except expected as error:
        typer.echo(f"dragoman {command}: {error}".replace("\n", " "), err=True)
        raise typer.Exit(1) from None


def train(
    recipe: flags.RecipeFile,
    out: flags.RunPath = None,
    device: flags.TrainingDevice = None,
    seed: flags.TrainingSeed = None,
    prepare_only: flags.PrepareOnly = False,
) -> None:
    """Train a model as a recipe says; the same command continues an interrupted run."""
    from model.training.distributed import LostProcessError
    from model.training.trainer import Trainer

    directory = out or Path("runs") / recipe.stem
    with reported_errors("train", LostProcessError):
        trainer = Trainer(recipe, directory, device=device, seed=seed)
        try:
            chosen = trainer.prepare() if prepare_only else trainer.run()
        except KeyboardInterrupt:
            if trainer.processes.first:
                typer.echo("stopped; the same command goes on from here", err=True)
            raise typer.Exit(130) from None
    if trainer.processes.first:
        typer.echo(chosen)
    trainer.processes.leave()


def corpus(plan: flags.CorpusPlanFile, out: flags.CorpusPath) -> None:
    """Make a training corpus of several sources, and report what was left out and why.

    Writes both sides, the origin of each line, report.json, and what was left out (dropped.tsv.gz).
    """
    from model.cleaning.clean import clean
    from model.cleaning.plan import load_plan

    with reported_errors("corpus", OSError):
        report = clean(load_plan(plan), out)
    typer.echo(report.as_text())


def average(
    checkpoints: flags.Checkpoints,
    out: flags.AveragePath,
    weights: flags.AverageWeights = None,
) -> None:
    """Average the weights of checkpoints: the last of one run, or those of two stages.

    The mean of a stage and the one before it often keeps most of what both are good at.
    """
    from model.training.averaging import average_checkpoints

    with reported_errors("average", OSError):
        try:
            shares = None if weights is None else [float(share) for share in weights.split(",")]
        except ValueError:
            raise ValueError(f"--weights {weights}: must be numbers with commas between: 0.15,0.85") from None
        average_checkpoints(checkpoints, out, shares)
    typer.echo(out)


def prune(
    checkpoint: flags.PrunedCheckpoint,
    keep: flags.KeptShare,
    source: flags.ImportanceSource,
    target: flags.ImportanceTarget,
    out: flags.PrunedPath,
) -> None:
    """Take out the attention heads and feed-forward columns that matter least, for a smaller checkpoint.

    What matters is measured on text. Train on from the result (initialise_from in a recipe), then export it.
    """
    from model.pruning.prune import prune_checkpoint

    with reported_errors("prune", OSError):
        typer.echo(prune_checkpoint(checkpoint, out, keep, source, target).as_text())


def distill(
    n_best: flags.NBestFile,
    reference: flags.NBestReference,
    metric: flags.ClosestBy = "bleu",
    source: flags.TaughtSource = None,
) -> None:
    """Choose of a teacher's translations the one closest to the reference, for a student to learn.

    One line on standard output for each line of the reference: the target side of the student's corpus. A
    checkpoint translates greedily, on a GPU if there is one; where that fails the reference stands in.
    """
    from tqdm import tqdm

    from model.data.distillation import choose

    with reported_errors("distill", OSError):
        if n_best.is_dir():
            from model.evaluation.teacher import taught

            if source is None:
                raise ValueError(f"{n_best}: is a checkpoint; give the text it is to translate with --source")
            chosen = taught(n_best, source, reference)
        else:
            chosen = choose(n_best, reference, metric)
        for line in tqdm(chosen, desc="choosing", unit="line", unit_scale=True, disable=None):
            typer.echo(line)
