"""The engine on exported bundles, against PyTorch that recomputes every target from scratch."""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from export.bundle import Manifest, verify_bundle
from model.checkpoint import load_checkpoint
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis
from server.runtime.model_runtime import ModelRuntime
from tests.server.engine import slow
from tests.server.engine.pools import thread_engine
from tests.support import factories

WAIT_S = 60.0


class Loaded:
    """A bundle behind a running pool."""

    def __init__(self, directory: Path) -> None:
        self.manifest: Manifest = verify_bundle(directory)
        runtime = ModelRuntime(directory, self.manifest)
        self.pool = thread_engine(runtime, EngineLimits(max_rows=16, max_queue_tokens=100_000), workers=2)

    def translate(
        self, sources: list[tuple[int, ...]], options: DecodingOptions
    ) -> list[tuple[Hypothesis, ...]]:
        futures = self.pool.submit("request", sources, options)
        return [future.result(WAIT_S).hypotheses for future in futures]


@pytest.fixture(
    scope="module", params=["tiny_bundle", "tiny_bundle_int8", "recurrent_bundle", "recurrent_bundle_int8"]
)
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    loaded = Loaded(request.getfixturevalue(request.param))
    yield loaded
    loaded.pool.close(WAIT_S)


def real_sources(manifest: Manifest, checkpoint: Path, count: int) -> list[tuple[int, ...]]:
    tokens, tokenizer = manifest.special_tokens, load_checkpoint(checkpoint).tokenizer
    texts, _ = factories.parallel_text(count, seed=11)
    return [
        (*tokens.source_prefix_ids, *ids, *tokens.source_suffix_ids) for ids in tokenizer.encode_batch(texts)
    ]


def test_golden_sentences_come_out_as_the_exporter_saw_them(loaded: Loaded) -> None:
    assert loaded.manifest.golden
    found = loaded.translate([golden.source_ids for golden in loaded.manifest.golden], DecodingOptions())
    assert [hypotheses[0].tokens for hypotheses in found] == [g.target_ids for g in loaded.manifest.golden]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_sentences_alone_and_together_are_the_same_to_the_last_bit(
    loaded: Loaded, tiny_checkpoint: Path, width: int
) -> None:
    sources = real_sources(loaded.manifest, tiny_checkpoint, 120 if width == 1 else 50)
    options = DecodingOptions(beam_size=width, num_hypotheses=width, return_scores=True)
    alone = [loaded.translate([source], options)[0] for source in sources]
    assert loaded.translate(sources, options) == alone
    assert loaded.translate(sources[::-1], options) == alone[::-1]


@pytest.mark.parametrize("kind", ["tiny", "recurrent"])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_equals_pytorch_that_recomputes_every_target(
    request: pytest.FixtureRequest, width: int, kind: str
) -> None:
    bundle, checkpoint = (request.getfixturevalue(f"{kind}_{what}") for what in ("bundle", "checkpoint"))
    loaded = Loaded(bundle)
    model = load_checkpoint(checkpoint).model
    torch.set_num_threads(1)

    @functools.cache
    def memory(source: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.tensor([len(source)])
        return model.encode(torch.tensor([source]), lengths), lengths

    @functools.cache
    def language(source: tuple[int, ...], target: tuple[int, ...]) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits: NDArray[np.float32] = model.decode(torch.tensor([target]), *memory(source))[0, -1].numpy()
        return logits

    options = DecodingOptions(
        beam_size=width, num_hypotheses=width, return_scores=True, max_decoding_length=30
    )
    sources = real_sources(loaded.manifest, checkpoint, 12)
    with torch.inference_mode():
        expected = [slow.decode(language, source, options, 128) for source in sources]
    found = loaded.translate(sources, options)
    loaded.pool.close(WAIT_S)
    for hypotheses, right in zip(found, expected, strict=True):
        assert [h.tokens for h in hypotheses] == [h.tokens for h in right]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in right], abs=1e-4)


def test_precision_changes_little(tiny_bundle: Path, tiny_bundle_int8: Path, tiny_checkpoint: Path) -> None:
    """int8 is another model, but the same language: most short sentences come out the same."""
    found = []
    for directory in (tiny_bundle, tiny_bundle_int8):
        loaded = Loaded(directory)
        sources = real_sources(loaded.manifest, tiny_checkpoint, 60)
        found.append([h[0].tokens for h in loaded.translate(sources, DecodingOptions())])
        loaded.pool.close(WAIT_S)
    same = sum(one == other for one, other in zip(*found, strict=True))
    assert same >= 40
