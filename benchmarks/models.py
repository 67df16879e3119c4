"""The models of the comparison: the same weights as a dragoman bundle, for CTranslate2 and for transformers.

Made once into a folder and used again; a bundle is made anew when the exporter's sources have changed.

    python -m benchmarks.models [base tiny default large] [--cache build/bench] [--keep-models]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.inputs import vocabulary
from benchmarks.inputs.random_model import Size, write_random_model
from benchmarks.reporting.progress import Progress

CACHE = Path("build/bench")
SHIPPED = Path("bundles/en-de")
RANDOM_SIZES = {
    "base": Size(encoder_layers=6, decoder_layers=6, d_model=512, ffn_dim=2048),
    "tiny": Size(encoder_layers=6, decoder_layers=2, d_model=256, ffn_dim=1536),
    "large": Size(12, 12, d_model=1024, ffn_dim=4096, heads=16, vocabulary=256_206),
}
"""Large has the shape of NLLB-200 with 600 million parameters; its export takes ten minutes and 12 GB."""

NAMES = ("base", "tiny", "default")
"""Of those that every part measures."""

EVERY_NAME = (*NAMES, "large")
"""Large has rows of the offline table only."""

BEAM_WIDTHS = (1, 4)
CALIBRATION_LENGTHS = [2 + (7 * i) % 17 for i in range(200)]
"""Words of every sentence that a model with random weights is calibrated and judged on."""

_SOURCES = ("export", "model")
_INPUTS = Path(__file__).parent / "inputs"
_PARITY_SENTENCES = 250
"""Of our own, on which a shipped model's export in fp16 is judged."""


@dataclass(frozen=True)
class Model:
    """Where one model lies.

    Attributes:
        name: of EVERY_NAME.
        bundle: for dragoman, int8.
        huggingface: for transformers, fp32, with vocab.json.
        ctranslate2: as its own converter writes it, int8.
    """

    name: str
    bundle: Path
    huggingface: Path
    ctranslate2: Path


def longest_target(huggingface: Path) -> int:
    """Give the most tokens that CTranslate2 can write: beyond its positions it fails the whole batch."""
    config = json.loads((huggingface / "config.json").read_text(encoding="utf-8"))
    return int(config["max_position_embeddings"]) - 1


def prepare(
    name: str,
    cache: Path,
    report: Callable[[str], None],
    *,
    shipped: Path = SHIPPED,
    size: Size | None = None,
    keep: bool = False,
) -> Model:
    """Make whatever of a model is missing or stale.

    Args:
        name: of the model.
        cache: folder for all models.
        report: gets a line at every stage.
        shipped: the bundle that ``default`` is.
        size: of a model with random weights, if it is another than the named one's.
        keep: use what is there, whatever it was made of.
    """
    size = size or RANDOM_SIZES.get(name)
    home = cache / "models" / name
    home.mkdir(parents=True, exist_ok=True)
    bundle = home / "bundle" if size else shipped
    model = Model(name, bundle, home / "huggingface", home / "ctranslate2")
    if keep and all(path.exists() for path in (model.bundle, model.huggingface, model.ctranslate2)):
        return model
    origin = _write_weights(model, size, shipped, report)
    once(
        model.ctranslate2,
        origin,
        lambda out: convert(model.huggingface, out),
        lambda: report(f"{name}: converting for CTranslate2"),
    )
    if size:
        sources = _hash_files([Path(__file__).parents[1] / folder for folder in _SOURCES])
        once(
            model.bundle,
            origin + sources,
            lambda out: _export(model.huggingface, out, size, lambda line: report(f"{name}: {line}")),
            lambda: report(f"{name}: exporting for dragoman"),
        )
    return model


def prepare_fp16(name: str, cache: Path, report: Callable[[str], None], *, shipped: Path = SHIPPED) -> Model:
    """Make whatever of a model is missing or stale, for a GPU; arguments as of `prepare`.

    Returns:
        The model with a bundle of precision fp16, and with weights of float16 for CTranslate2.
    """
    size, home = RANDOM_SIZES.get(name), cache / "models" / name
    home.mkdir(parents=True, exist_ok=True)
    model = Model(name, home / "bundle-fp16", home / "huggingface", home / "ctranslate2-fp16")
    origin = _write_weights(model, size, shipped, report)
    once(
        model.ctranslate2,
        origin,
        lambda out: convert(model.huggingface, out, quantization="float16"),
        lambda: report(f"{name}: converting for CTranslate2"),
    )
    sources = _hash_files([Path(__file__).parents[1] / folder for folder in _SOURCES])
    once(
        model.bundle,
        origin + sources,
        lambda out: _export(model.huggingface, out, size, lambda line: report(f"{name}: {line}"), "fp16"),
        lambda: report(f"{name}: exporting for dragoman in fp16"),
    )
    return model


def _write_weights(model: Model, size: Size | None, shipped: Path, report: Callable[[str], None]) -> str:
    """Write the weights for transformers, if they are missing or stale; gives what they are made of."""

    def write(out: Path) -> None:
        if size:
            write_random_model(out, size)
        else:
            _recover(shipped, out)

    origin = repr(size) + _hash_files([_INPUTS]) if size else _hash_files([shipped], "*")
    once(model.huggingface, origin, write, lambda: report(f"{model.name}: writing the weights"))
    return origin


def once(out: Path, origin: str, write: Callable[[Path], None], announce: Callable[[], None]) -> None:
    """Fill a folder aside and rename it, unless it is there and made of the same."""
    stamp = out.with_name(f"{out.name}.made-of")
    wanted = hashlib.sha256(origin.encode()).hexdigest()
    if out.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return
    announce()
    aside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    write(aside)
    shutil.rmtree(out, ignore_errors=True)
    aside.rename(out)
    stamp.write_text(wanted, encoding="ascii")


def _hash_files(folders: list[Path], pattern: str = "*.py") -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            if folder == _INPUTS and path.stem not in ("random_model", "vocabulary"):
                continue
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _recover(bundle: Path, out: Path) -> None:
    from export.convert.to_huggingface import write_huggingface
    from export.recovery.from_bundle import recover_checkpoint
    from model.checkpoint import load_checkpoint

    checkpoint = out / "checkpoint"
    recover_checkpoint(bundle, checkpoint)
    written = out / "model"
    write_huggingface(load_checkpoint(checkpoint), written)
    shutil.rmtree(checkpoint)
    for path in written.iterdir():
        path.rename(out / path.name)
    written.rmdir()


def convert(
    huggingface: Path, out: Path, vmap: Path | None = None, quantization: Literal["int8", "float16"] = "int8"
) -> None:
    """Run CTranslate2's own converter.

    Args:
        huggingface: folder of the model.
        out: folder to fill.
        vmap: vocabulary map that goes with it.
        quantization: of the weights.
    """
    import transformers
    from ctranslate2.converters import TransformersConverter

    transformers.logging.disable_progress_bar()
    TransformersConverter(str(huggingface)).convert(
        str(out), vmap=str(vmap) if vmap else None, quantization=quantization, force=True
    )


def calibration_file(bundle: Path, vocabulary_size: int) -> Path:
    """Write the text that a model with random weights is calibrated on, beside its bundle."""
    sentences = vocabulary.random_sentences(vocabulary_size, CALIBRATION_LENGTHS, seed=1, ending=True)
    return _write_text(bundle, map(vocabulary.as_text, sentences))


def _write_text(bundle: Path, lines: Iterable[str]) -> Path:
    text = bundle.with_name("calibration.txt")
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return text


def _export(
    huggingface: Path,
    out: Path,
    size: Size | None,
    report: Callable[[str], None],
    precision: Literal["fp16", "int8"] = "int8",
) -> None:
    """Run the real importer and exporter with all their gates; the counter makes even random weights pass."""
    from benchmarks.concurrency import sentences
    from export.convert.import_command import import_model
    from export.convert.vocabularies.vocabulary import ImportNames
    from export.pipeline import ExportOptions

    text = calibration_file(out, size.vocabulary) if size else _write_text(out, sentences(_PARITY_SENTENCES))
    options = ExportOptions(
        precision=precision,
        dev_source=[text],
        weight_bits=7 if precision == "int8" else None,
        beam_widths=BEAM_WIDTHS,
        threads=2,
        force=True,
    )
    import_model(str(huggingface), out, "bundle", ImportNames(), options, report)


def main() -> None:
    """Make the models that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(EVERY_NAME)}; all by default")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    parser.add_argument("--keep-models", action="store_true", help="do not export anew after changes")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(EVERY_NAME):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(EVERY_NAME)}")
    names = arguments.names or EVERY_NAME
    progress = Progress(len(names))
    for name in names:
        model = prepare(name, arguments.cache, progress.say, keep=arguments.keep_models)
        progress.say(f"{name}: {model.bundle}, {model.huggingface}, {model.ctranslate2}", done=1.0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
