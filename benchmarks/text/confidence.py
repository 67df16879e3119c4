"""Whether confidences come true: calibration error and correlation with chrF on text not fitted on.

python -m benchmarks.text.confidence --bundle bundles/en-de --source test.en.gz --reference test.de.gz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from export.bundle import verify_bundle
from export.text_measures.confidence import correlation, observe, reliability
from export.text_measures.dev_translator import DevTranslator
from model.data.corpus import read_parallel


def main() -> None:
    """Translate a test set greedily, and print what the bundle said of it and what came true."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    given = parser.parse_args()
    manifest = verify_bundle(given.bundle)
    if manifest.confidence is None:
        parser.error(f"{given.bundle} is not calibrated; dragoman measure does that")
    translator = DevTranslator.of_bundle(given.bundle, manifest)
    text = read_parallel([given.source], [given.reference])
    references = dict(zip(text.sources, text.targets, strict=True))
    sources = translator.fitting(text.sources)
    seen = observe(translator, sources, [references[one] for one in sources], given.source.name)
    words, sentences = manifest.confidence.words.curve, manifest.confidence.sentences.curve
    said_of_words = np.array([words.at(log) for log in seen.word_logs.tolist()])
    said = np.array([sentences.at(mean) for mean in seen.sentence_means.tolist()])
    for name, each, found in (
        ("words", said_of_words, seen.word_found),
        ("sentences", said, seen.sentence_chrf),
    ):
        error, bins = reliability(each, found)
        print(f"{name}: {len(each):,}, expected calibration error {error:.4f}")
        for one in bins:
            if one.count:
                print(f"  {one.count:7,} said {one.said:.2f} found {one.found:.2f}")
    by_confidence = seen.sentence_chrf[np.argsort(said, kind="stable")]
    tenth = max(1, len(said) // 10)
    print(
        f"Pearson with sentence chrF {correlation(said, seen.sentence_chrf):.3f}; chrF of all "
        f"{by_confidence.mean():.3f}, of the least sure tenth {by_confidence[:tenth].mean():.3f}, of the "
        f"surest {by_confidence[-tenth:].mean():.3f}"
    )


if __name__ == "__main__":
    main()
