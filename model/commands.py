"""`dragoman train`, `corpus`, `average`, `prune`, `distill`, `evaluate`. Nothing heavy is imported first."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

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


def trim(
    checkpoint: flags.TrimmedCheckpoint,
    source: flags.TrimmedSource,
    target: flags.TrimmedTarget,
    out: flags.PrunedPath,
    languages: flags.TrimmedLanguages = None,
    min_agreement: flags.TrimmedAgreement = 0.9,
) -> None:
    """Take out the words that the texts of some languages do not need, for a smaller and faster model.

    A model of 200 languages has 256,000 words, of which a language uses a tenth. Give some 100,000 lines of
    every language that stays, those of the first language first: held-out ones are translated from it to the
    second, with and without the words. Then export the result; evaluate --against says what it costs.
    """
    from model.pruning.vocabulary import trim_vocabulary

    with reported_errors("trim", OSError):
        codes = languages.split(",") if languages else []
        typer.echo(trim_vocabulary(checkpoint, out, source, target, codes, min_agreement).as_text())


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


Translate = Callable[[Sequence[str]], list[str]]


class BundleSystems(Protocol):
    """What translates with a bundle."""

    @property
    def own_words(self) -> Translate:
        """In the model's own words."""
        ...

    @property
    def served(self) -> Translate:
        """As the server answers."""
        ...

    @property
    def alone(self) -> Translate:
        """With the model alone."""
        ...

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        ...

    @property
    def links(self) -> Callable[[Sequence[str], Sequence[str]], list[tuple[int, int]]]:
        """Word alignment."""
        ...


def evaluate_command(
    systems: Callable[[Path, int, float, str | None], BundleSystems],
    errors: Callable[[], AbstractContextManager[None]],
) -> Callable[..., None]:
    """Make the command.

    Args:
        systems: of a bundle, by its directory, the beam size, the length penalty and the direction.
        errors: turns what a user can put right into an exit code.
    """

    def evaluate(
        model: flags.Model,
        source: flags.Source = None,
        reference: flags.Reference = None,
        beam_size: flags.BeamSize = 1,
        length_penalty: flags.LengthPenalty = 1.0,
        tokenize: flags.Tokenize = "13a",
        join_bpe: flags.JoinBpe = False,
        against: flags.Against = None,
        robustness: flags.Robustness = False,
        fairness: flags.Fairness = None,
        page: flags.Page = None,
        direction: flags.EvaluatedDirection = None,
    ) -> None:
        """Score a checkpoint or a bundle: BLEU, chrF and TER as JSON, with sacreBLEU's signatures."""
        from model.evaluation.evaluation_page import write_evaluation_page
        from model.evaluation.scoring import check_tokenizer

        def load(directory: Path) -> tuple[BundleSystems | None, Translate]:
            if (directory / "manifest.json").exists():
                bundle = systems(directory, beam_size, length_penalty, direction)
                return bundle, bundle.own_words
            return None, _checkpoint(directory, beam_size, direction)

        if (source is None) != (reference is None) or (source is None and fairness is None):
            raise typer.BadParameter("give --source and --reference, or --fairness, or all of them")
        result: dict[str, Any] = {"model": str(model), "beam_size": beam_size}
        with errors():
            check_tokenizer(tokenize)
            bundle, translate = load(model)
            if source is not None and reference is not None:
                baseline = load(against)[1] if against else None
                damaged = _damaged(bundle, translate) if robustness else {}
                text = (source, reference)
                result |= _scores(text, translate, baseline, damaged, tokenize=tokenize, join_bpe=join_bpe)
            if against is not None and "against" in result:
                result["against"] = {"model": str(against), **result["against"]}
            if fairness is not None:
                result["fairness"] = _fairness(fairness, bundle, translate, direction)
            if page is not None:
                write_evaluation_page(page, result)
        typer.echo(json.dumps(result, indent=1, ensure_ascii=False))

    return evaluate


def _scores(
    text: tuple[Path, Path],
    translate: Translate,
    baseline: Translate | None,
    damaged: Mapping[str, Translate],
    *,
    tokenize: str,
    join_bpe: bool,
) -> dict[str, Any]:
    from model.data.corpus import read_parallel
    from model.evaluation.evaluation_report import Evaluation

    source, reference = text
    evaluation = Evaluation(read_parallel([source], [reference]), tokenize=tokenize, join_bpe=join_bpe)
    return evaluation.report(translate, baseline, robustness=damaged)


def _damaged(bundle: BundleSystems | None, translate: Translate) -> dict[str, Translate]:
    """Give what gets damaged sources: a checkpoint, or a bundle's model alone and as it is served."""
    if bundle is None:
        return {"robustness": translate}
    return {"robustness": bundle.alone, "robustness_served": bundle.served}


def _checkpoint(directory: Path, beam_size: int, direction: str | None) -> Translate:
    from model.evaluation.evaluation import checkpoint_translator

    if beam_size > 1:
        raise typer.BadParameter("a checkpoint decodes greedily; export it for beam search")
    return checkpoint_translator(directory, direction)


def _fairness(
    folder: Path, bundle: BundleSystems | None, translate: Translate, direction: str | None
) -> dict[str, Any]:
    from model.evaluation.fairness import fairness

    if bundle is not None:
        return fairness(folder, *bundle.pair, bundle.served, bundle.links)
    if direction is None or direction.count("-") != 1:
        raise ValueError(
            "the fairness of a checkpoint needs --direction, as en-de, for its files have languages"
        )
    source, target = direction.split("-")
    return fairness(folder, source, target, translate)
