"""Images to words: rows of handwritten digits for `recipes/digits.toml`, and the score of a bundle.

The digits are those that scikit-learn ships (1,797 images of 8 x 8 pixels; Alpaydin and Kaynak, 1998, UCI
"Optical Recognition of Handwritten Digits"). Two to four of them side by side are an image, its columns of 8
pixels are the sequence, and the text is what they are called: "three one seven". The images of train, dev and
test are different ones: no digit of a test row was ever seen in training. Those of training are also turned,
scaled, shifted and made brighter or darker.

`python -m benchmarks.training.digits prepare data/digits`
`python -m benchmarks.training.digits evaluate out/digits data/digits`
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from model.features.encoded import to_base64
from model.features.files import read_features, write_features
from server.service.translation.file_translation import translate_lines

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PARTS = {"test": (300, 2_000), "dev": (200, 600), "train": (1_297, 60_000)}
"""Digits, and rows of them that are made, of each part."""

_VARIANTS = 40
_SIZE = 8
_MOST_GAP = 2

Pixels = NDArray[np.float32]

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


def varied(image: Pixels, rng: np.random.Generator) -> Pixels:
    """Turn, scale, slant and shift an image [8, 8] a little, and change its brightness."""
    from scipy.ndimage import affine_transform

    angle, slant = rng.normal(0, 0.12), rng.normal(0, 0.1)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.array([[1.0, slant], [0.0, 1.0]]) / rng.normal(1, 0.08, (1, 2)).clip(0.8, 1.2)
    middle = np.full(2, (_SIZE - 1) / 2)
    offset = middle - matrix @ (middle + rng.normal(0, 0.5, 2))
    moved = affine_transform(image, matrix, offset, order=1) * rng.uniform(0.8, 1.2)
    return np.clip(moved + rng.normal(0, 0.03, moved.shape), 0, 1).astype(np.float32)


def row_of(digits: list[Pixels], rng: np.random.Generator) -> Pixels:
    """Put images [8, 8] side by side, with up to two empty columns before each; returns columns [W, 8]."""
    columns: list[Pixels] = []
    for digit in digits:
        columns += [np.zeros((int(rng.integers(_MOST_GAP + 1)), _SIZE), np.float32), digit.T]
    return np.concatenate(columns)


@app.command()
def prepare(out: Annotated[Path, typer.Argument(help="Folder of the parts.")]) -> None:
    """Write an .npz of features and a text of words for each part."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    out.mkdir(parents=True, exist_ok=True)
    for part, (count, rows) in PARTS.items():
        own, order = order[:count], order[count:]
        shapes = {i: [images[i]] for i in own}
        if part == "train":
            shapes = {i: [images[i], *(varied(images[i], rng) for _ in range(_VARIANTS))] for i in own}
        chosen = [rng.choice(own, int(rng.integers(2, 5))) for _ in range(rows)]
        features = [
            row_of([shapes[i][int(rng.integers(len(shapes[i])))] for i in some], rng) for some in chosen
        ]
        write_features(out / f"{part}.npz", features)
        lines = (" ".join(WORDS[labels[i]] for i in some) + "\n" for some in chosen)
        (out / f"{part}.words").write_text("".join(lines), encoding="utf-8")
        typer.echo(f"{part}: {count:,} images of digits, {rows:,} rows of two to four")


@app.command()
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="Bundle of the model.")],
    data: Annotated[Path, typer.Argument(help="What prepare wrote.")],
    part: Annotated[str, typer.Option(help="dev or test.")] = "test",
    beam_size: Annotated[int, typer.Option(help="Hypotheses kept at each step.")] = 1,
) -> None:
    """Print how many rows the bundle reads without a mistake."""
    rows = [to_base64(row) for row in read_features(data / f"{part}.npz")]
    words = (data / f"{part}.words").read_text(encoding="utf-8").splitlines()
    said = translate_lines(bundle, rows, beam_size=beam_size)
    right = sum(one == other for one, other in zip(said, words, strict=True))
    typer.echo(f"{part}, {len(rows):,} rows, beam {beam_size}: {100 * right / len(rows):.2f} % exact")


if __name__ == "__main__":
    app()
