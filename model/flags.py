"""Options of `dragoman train`, `average`, `distill` and `evaluate`; imports nothing heavy, for `--help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeFile = Annotated[Path, typer.Argument(help="TOML file: corpus, vocabulary, model, training.")]
RunPath = Annotated[
    Path | None,
    typer.Option(
        help="Directory of the run; unless given runs/ and the recipe file's name without .toml. "
        "An unfinished run goes on."
    ),
]
TrainingDevice = Annotated[str | None, typer.Option(help="cpu or cuda; overrides the recipe.")]
TrainingSeed = Annotated[int | None, typer.Option(min=0, help="Overrides the recipe's.")]

PrepareOnly = Annotated[
    bool,
    typer.Option("--prepare-only", help="Make vocabulary and tables of ids, train nothing."),
]

Checkpoints = Annotated[
    list[Path], typer.Argument(help="Two or more, of one architecture and vocabulary; weights of all count.")
]
AveragePath = Annotated[Path, typer.Option(help="Directory of the new checkpoint.")]
AverageWeights = Annotated[
    str | None,
    typer.Option(help="How much each counts: 0.15,0.85.", show_default="all the same"),
]

PrunedCheckpoint = Annotated[Path, typer.Argument(help="Checkpoint to make a smaller one of.")]
KeptShare = Annotated[
    float, typer.Option("--keep", help="Share of all parameters that stays, embeddings included: 0.7.")
]
ImportanceSource = Annotated[
    list[Path],
    typer.Option("--source", help="Text of the model's kind, plain or .gz; 512 sentences are read."),
]
ImportanceTarget = Annotated[list[Path], typer.Option("--target", help="Its translation, line by line.")]
TrimmedCheckpoint = Annotated[Path, typer.Argument(help="Checkpoint to take words out of.")]
TrimmedSource = Annotated[
    list[Path],
    typer.Option("--source", help="Text of a language it will translate from, plain or .gz; repeatable."),
]
TrimmedTarget = Annotated[
    list[Path],
    typer.Option("--target", help="Text of a language it will translate to; repeatable."),
]
TrimmedLanguages = Annotated[
    str | None,
    typer.Option("--languages", help="Those that stay: en,de. Needed for a model of more than two."),
]
TrimmedAgreement = Annotated[
    float,
    typer.Option(
        "--min-agreement",
        min=0.0,
        max=1.0,
        help="Share of held-out lines (one of 20; at most 60) that must be translated as before.",
    ),
]
PrunedPath = Annotated[Path, typer.Option("--out", help="Directory of the new checkpoint.")]

CorpusPlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN", help="TOML file: languages, sources, held-out text, filters.")
]
CorpusPath = Annotated[Path, typer.Option(help="Directory of the corpus; an old one is replaced.")]

NBestFile = Annotated[
    Path,
    typer.Argument(
        metavar="N_BEST|CHECKPOINT",
        help="What `dragoman translate --n-best` wrote, or another n-best list, plain or .gz; "
        "or a checkpoint, which translates --source itself.",
    ),
]
TaughtSource = Annotated[
    Path | None, typer.Option("--source", help="Text that a checkpoint is to translate; plain or .gz.")
]
NBestReference = Annotated[
    Path, typer.Option("--reference", help="The translation that people made, line by line.")
]
ClosestBy = Annotated[
    Literal["bleu", "chrf"], typer.Option("--metric", help="Of each sentence: BLEU or chrF.")
]

Model = Annotated[Path, typer.Argument(help="A checkpoint (PyTorch) or a bundle (the server's engine).")]
Source = Annotated[Path | None, typer.Option(help="Text to translate, one sentence a line, plain or .gz.")]
Reference = Annotated[Path | None, typer.Option(help="Its reference translation, line by line.")]
BeamSize = Annotated[int, typer.Option(min=1, help="1 is greedy; checkpoints decode greedily.")]
LengthPenalty = Annotated[float, typer.Option(help="Of beam search; 0 for none.")]
Tokenize = Annotated[
    str, typer.Option(help="sacreBLEU's tokeniser for BLEU; none for text that is tokenised.")
]
EvaluatedDirection = Annotated[
    str | None, typer.Option("--direction", help="Of a model that has several: en-fr. Else its first.")
]
JoinBpe = Annotated[bool, typer.Option("--join-bpe", help="Join pieces that end in @@ before scoring.")]
Against = Annotated[
    Path | None, typer.Option(help="Another checkpoint or bundle: is the difference significant?")
]
Robustness = Annotated[
    bool,
    typer.Option(
        "--robustness",
        help="Also with damaged sources (typos, case, spaces and more), a bundle also as it is served.",
    ),
]
Fairness = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Also how women and men are translated: with MT-GenEval and WinoMT, downloaded to this folder.",
    ),
]
Page = Annotated[Path | None, typer.Option(help="Also write a page with plots: an HTML file.")]
