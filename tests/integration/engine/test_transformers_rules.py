"""Beam search by transformers' rules against transformers' own `generate`, hypothesis by hypothesis."""

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import MarianConfig, MarianMTModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from tests.server.engine.bench import Bench
from tests.server.engine.fakes import (
    EOS,
    PAD,
    START,
    VOCABULARY,
    FakeRuntime,
    sentence,
)

Ids = tuple[int, ...]
Language = Any
SENTENCES, STATES, LONGEST = 16, 211, 14


def config(**sizes: Any) -> MarianConfig:
    values = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    ffn = {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "activation_function": "swish"}
    ids = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": START}
    return MarianConfig(
        vocab_size=VOCABULARY, **values, **heads, **ffn, **ids, forced_eos_token_id=None, **sizes
    )


class Scripted(MarianMTModel):
    """Says what a random table says, one for each sentence, by the last two tokens and the length."""

    def __init__(self) -> None:
        super().__init__(config())
        draw = torch.Generator().manual_seed(4)
        self.table = torch.randn(SENTENCES, STATES, VOCABULARY, generator=draw) * 2
        self.table[:, :, EOS] += 2.5

    def forward(self, *_: Any, decoder_input_ids: torch.Tensor, **__: Any) -> Seq2SeqLMOutput:
        rows = len(decoder_input_ids)
        sentences = torch.arange(rows) // (rows // SENTENCES)
        last, before = (
            decoder_input_ids[:, -1],
            decoder_input_ids[:, -2] if decoder_input_ids.shape[1] > 1 else 0,
        )
        states = (last * 31 + before * 17 + decoder_input_ids.shape[1]) % STATES
        return Seq2SeqLMOutput(logits=self.table[sentences, states][:, None])

    def language(self, source: Ids, target: Ids) -> NDArray[np.float32]:
        before = target[-2] if len(target) > 1 else 0
        state = (target[-1] * 31 + before * 17 + len(target)) % STATES
        scores: NDArray[np.float32] = self.table[source[0] - 4, state].numpy()
        return scores


@pytest.fixture(scope="module")
def scripted() -> Scripted:
    return Scripted().eval()


def generated(
    model: MarianMTModel,
    sources: list[Ids],
    options: DecodingOptions,
    suppressed: Ids = (),
    forced_end: bool = False,
) -> list[list[tuple[Ids, float]]]:
    """Tokens and scores of all hypotheses of all sentences, as transformers has them."""
    forced = options.target_prefix[: options.model_prefix_tokens]
    assert len(forced) < 2
    start = [START, *options.target_prefix[len(forced) :]]
    chosen: dict[str, Any] = {"forced_bos_token_id": forced[0]} if forced else {}
    if options.beam_size > 1:
        chosen |= {"length_penalty": options.length_penalty, "early_stopping": options.early_stopping}
    found = model.generate(
        input_ids=torch.tensor(sources),
        attention_mask=torch.ones(len(sources), len(sources[0]), dtype=torch.long),
        decoder_input_ids=torch.tensor([start] * len(sources)),
        do_sample=False,
        use_cache=False,
        num_beams=options.beam_size,
        num_return_sequences=options.num_hypotheses,
        max_length=options.max_decoding_length + 1,
        min_length=options.min_decoding_length + 1 if options.min_decoding_length else 0,
        repetition_penalty=options.repetition_penalty,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        bad_words_ids=[[token] for token in suppressed] or None,
        forced_eos_token_id=EOS if forced_end else None,
        return_dict_in_generate=True,
        output_scores=True,
        **chosen,
    )
    scores = found.sequences_scores.tolist() if options.beam_size > 1 else [0.0] * len(found.sequences)
    hypotheses = []
    for sequence, score in zip(found.sequences.tolist(), scores, strict=True):
        tokens = sequence[1:]
        hypotheses.append((tuple(tokens[: tokens.index(EOS)] if EOS in tokens else tokens), score))
    count = options.num_hypotheses
    return [hypotheses[first : first + count] for first in range(0, len(hypotheses), count)]


def decoded(
    language: Language,
    sources: list[Ids],
    options: DecodingOptions,
    suppressed: Ids = (),
    forced_end: bool = False,
) -> list[list[tuple[Ids, float]]]:
    """The same by the engine, all sentences in one batch."""
    runtime = FakeRuntime(language)
    runtime.spec = dataclasses.replace(runtime.spec, suppressed_ids=suppressed, forced_end=forced_end)
    limits = EngineLimits(max_rows=options.beam_size * len(sources))
    sentences = [sentence(source, options, request=str(n)) for n, source in enumerate(sources)]
    bench = Bench(runtime, limits)
    bench.add(*sentences)
    outcomes = {outcome.sequence: outcome.result for _ in range(200) for outcome in bench.step()}
    results = [outcomes[one] for one in sentences]
    assert all(isinstance(result, SequenceResult) for result in results)
    return [[(h.tokens, h.score) for h in result.hypotheses] for result in results]  # type: ignore[union-attr]


def assert_same(found: list[list[tuple[Ids, float]]], expected: list[list[tuple[Ids, float]]]) -> None:
    assert [[tokens for tokens, _ in one] for one in found] == [
        [tokens for tokens, _ in one] for one in expected
    ]
    scores = [score for one in found for _, score in one]
    assert scores == pytest.approx([score for one in expected for _, score in one], abs=2e-4)


EVERY = list(itertools.product([1, 2, 4, 5], [0.0, 0.6, 1.0, 2.0], [False, True, "never"]))
SOURCES = [(4 + number, EOS) for number in range(SENTENCES)]


@pytest.mark.parametrize(("width", "penalty", "stopping"), EVERY)
def test_768_searches_end_as_in_transformers(
    scripted: Scripted, width: int, penalty: float, stopping: bool | str
) -> None:
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        length_penalty=penalty,
        early_stopping=stopping,  # type: ignore[arg-type]
        max_decoding_length=LONGEST,
    )
    assert_same(decoded(scripted.language, SOURCES, options), generated(scripted, SOURCES, options))


@pytest.mark.parametrize("forced_end", [False, True])
@pytest.mark.parametrize("combined", range(24))
def test_768_searches_with_options_combined(scripted: Scripted, combined: int, forced_end: bool) -> None:
    draw = np.random.default_rng(combined)
    prefix = tuple(draw.integers(4, VOCABULARY, (0, 0, 1, 4, 1)[combined % 5]).tolist())
    width = (1, 2, 4, 5)[combined % 4]
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        length_penalty=float(draw.choice([0.0, 0.6, 1.0, 2.0])),
        early_stopping=(False, True, "never")[combined % 3],  # type: ignore[arg-type]
        max_decoding_length=int(draw.integers(8, 20)),
        min_decoding_length=int(draw.choice([0, 5, 8])),
        repetition_penalty=float(draw.choice([1.0, 1.3, 0.8])),
        no_repeat_ngram_size=int(draw.choice([0, 1, 2, 3])),
        target_prefix=prefix,
        model_prefix_tokens=int(combined % 5 == 4),
    )
    # transformers counts the start token as written; models that start with one never write it.
    suppressed = (PAD, START, 40)
    assert_same(
        decoded(scripted.language, SOURCES, options, suppressed, forced_end),
        generated(scripted, SOURCES, options, suppressed, forced_end),
    )


def test_rules_differ_where_they_should(scripted: Scripted) -> None:
    """The comparisons above could not fail if all rules gave the same."""
    found = {
        rule: decoded(
            scripted.language,
            SOURCES,
            DecodingOptions(beam_size=4, num_hypotheses=4, early_stopping=rule, max_decoding_length=LONGEST),
        )
        for rule in (None, False, True, "never")
    }
    assert sum(a != b for a, b in itertools.combinations(found.values(), 2)) >= 4


@pytest.mark.parametrize(("width", "stopping"), [(1, False), (4, False), (4, True), (4, "never"), (5, False)])
def test_a_random_marian_model_is_searched_alike(width: int, stopping: bool | str) -> None:
    torch.manual_seed(3)
    model = MarianMTModel(config(init_std=0.6)).eval()
    model.final_logits_bias[0, EOS] = 3.0

    @functools.cache
    def memory(source: Ids) -> torch.Tensor:
        return model.get_encoder()(torch.tensor([source])).last_hidden_state

    @functools.cache
    def language(source: Ids, target: Ids) -> NDArray[np.float32]:
        encoded = BaseModelOutput(last_hidden_state=memory(source))
        with torch.inference_mode():
            found = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([target]), use_cache=False)
        scores: NDArray[np.float32] = found.logits[0, -1].numpy()
        return scores

    draw = np.random.default_rng(5)
    sources = [(*draw.integers(4, VOCABULARY, 5).tolist(), EOS) for _ in range(8)]
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        length_penalty=0.6,
        early_stopping=stopping,  # type: ignore[arg-type]
        max_decoding_length=LONGEST,
    )
    assert_same(decoded(language, sources, options, (PAD,)), generated(model, sources, options, (PAD,)))
