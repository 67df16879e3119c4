"""Greedy and beam search by CTranslate2's rules against CTranslate2 itself, on the same random weights."""

import dataclasses
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch
from ctranslate2.converters import TransformersConverter
from numpy.typing import NDArray
from transformers import MarianConfig, MarianMTModel
from transformers.modeling_outputs import BaseModelOutput

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from tests.server.engine.bench import Bench
from tests.server.engine.fakes import FakeRuntime, sentence
from tests.support import factories

Ids = tuple[int, ...]
EOS, UNKNOWN = 0, 1
COUNT, LONGEST = 12, 16


class Pair:
    """A random MarianMT in PyTorch, and in CTranslate2 through its own converter."""

    def __init__(self, directory: Path) -> None:
        saved = directory / "marian"
        saved.mkdir()
        pieces = factories.tiny_tokenizer(saved / "source.spm").target_vocab_size
        shutil.copy(saved / "source.spm", saved / "target.spm")
        # Marian's order: the end token first, padding last; the padding's zero embedding starts the decoder.
        self.words = ["</s>", "<unk>", *(f"word{n}" for n in range(2, pieces)), "<pad>"]
        self.pad = len(self.words) - 1
        (saved / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(self.words)}))
        (saved / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
        torch.manual_seed(2)
        config = MarianConfig(
            vocab_size=len(self.words),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            activation_function="swish",
            max_position_embeddings=64,
            scale_embedding=True,
            init_std=0.5,
            eos_token_id=EOS,
            pad_token_id=self.pad,
            decoder_start_token_id=self.pad,
            forced_eos_token_id=None,
        )
        self.model = MarianMTModel(config).eval()
        self.model.final_logits_bias[0, EOS] = 4.5
        self.model.save_pretrained(saved)
        TransformersConverter(str(saved)).convert(str(directory / "converted"))
        self.translator = ctranslate2.Translator(str(directory / "converted"), compute_type="float32")

    @functools.cached_property
    def language(self) -> Callable[[Ids, Ids], NDArray[np.float32]]:
        @functools.cache
        def memory(source: Ids) -> torch.Tensor:
            with torch.inference_mode():
                return self.model.get_encoder()(torch.tensor([source])).last_hidden_state

        @functools.cache
        def scores(source: Ids, target: Ids) -> NDArray[np.float32]:
            encoded = BaseModelOutput(last_hidden_state=memory(source))
            ids = torch.tensor([target])
            with torch.inference_mode():
                found = self.model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False)
            values: NDArray[np.float32] = found.logits[0, -1].numpy()
            return values

        return scores

    def sources(self) -> list[Ids]:
        draw = np.random.default_rng(1)
        return [(*draw.integers(2, self.pad, draw.integers(2, 9)).tolist(), EOS) for _ in range(COUNT)]

    def by_ctranslate2(self, options: DecodingOptions) -> list[list[tuple[Ids, float]]]:
        prefix = [self.words[token] for token in options.target_prefix]
        found = self.translator.translate_batch(
            [[self.words[token] for token in source] for source in self.sources()],
            target_prefix=[prefix] * COUNT if prefix else None,
            beam_size=options.beam_size,
            patience=options.patience,
            num_hypotheses=options.num_hypotheses,
            length_penalty=options.length_penalty,
            repetition_penalty=options.repetition_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            max_decoding_length=options.max_decoding_length,
            min_decoding_length=options.min_decoding_length,
            return_scores=True,
        )
        ids = {word: n for n, word in enumerate(self.words)}
        return [
            [
                (tuple(ids[word] for word in words), score)
                for words, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in found
        ]

    def by_the_engine(self, options: DecodingOptions) -> list[list[tuple[Ids, float]]]:
        runtime = FakeRuntime(self.language)
        runtime.spec = dataclasses.replace(
            runtime.spec,
            vocabulary_size=len(self.words),
            pad_id=self.pad,
            eos_id=EOS,
            decoder_start_id=self.pad,
            suppressed_ids=(self.pad,),
        )
        sentences = [sentence(source, options, request=str(n)) for n, source in enumerate(self.sources())]
        limits = EngineLimits(max_rows=COUNT * options.beam_size)
        bench = Bench(runtime, limits)
        bench.add(*sentences)
        outcomes = {outcome.sequence: outcome.result for _ in range(100) for outcome in bench.step()}
        results = [outcomes[one] for one in sentences]
        assert all(isinstance(result, SequenceResult) for result in results)
        return [[(h.tokens, h.score) for h in result.hypotheses] for result in results]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("number", range(36))
def test_432_searches_give_the_hypotheses_of_ctranslate2(pair: Pair, number: int) -> None:
    draw = np.random.default_rng(number)
    width = (1, 2, 4)[number % 3]
    plain = number < 12
    prefix = [] if plain else draw.integers(2, pair.pad, draw.choice([0, 0, 1, 3])).tolist()
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        length_penalty=float(draw.choice([0.0, 0.6, 1.0, 2.0])),
        max_decoding_length=LONGEST,
        # With a prefix, CTranslate2 lets no beam but the first end at the first free step: keep away from it.
        min_decoding_length=len(prefix) + 1 if prefix else int(draw.choice([0, 0, 4])),
        return_scores=True,
        patience=1.0 if plain else float(draw.choice([1.0, 2.0])),
        repetition_penalty=1.0 if plain else float(draw.choice([1.0, 1.3])),
        no_repeat_ngram_size=0 if plain else int(draw.choice([0, 1, 2])),
        target_prefix=tuple(prefix),
    )
    found, expected = pair.by_the_engine(options), pair.by_ctranslate2(options)
    for ours, theirs in zip(found, expected, strict=True):
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-4)
        for (tokens, score), (right, their_score) in zip(ours, theirs, strict=True):
            # Sums of rounded numbers may come in another order where they are equal (1 search of 2,160).
            assert tokens == right or score == pytest.approx(their_score, abs=1e-5)
