"""What length costs: training on as many tokens in fewer and longer sentences, and decoding one sentence.

Weights are random and times are processor time of one thread, both architectures in turns, the fastest of
some rounds: so a busy machine changes little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.recurrence.contenders import ARCHITECTURES, Corpus, architecture
from model.checkpoint import new_model
from model.config import AnyConfig
from model.data.batching import Batch, collate
from model.encoder_decoder import EncoderDecoder
from model.evaluation.evaluation import greedy_decode
from model.tokenizer import Tokenizer
from model.training.batch_loss import BatchLoss

LENGTHS = (8, 16, 32, 64, 128, 240)
TOKENS = 1920
_ROUNDS = 5


def measured_speed(corpus: Corpus, tokenizer: Tokenizer) -> dict[str, Any]:
    """Measure both architectures at the sizes of a corpus.

    Returns:
        By architecture: training tokens a second and milliseconds to decode a sentence (encoder and as many
        greedy steps as it has tokens), at each of ``LENGTHS``.
    """
    torch.set_num_threads(1)
    configs = {kind: architecture(corpus, kind, tokenizer) for kind in ARCHITECTURES}
    training = {kind: _training(config) for kind, config in configs.items()}
    decoding = {kind: _decoding(config) for kind, config in configs.items()}
    found: dict[str, Any] = {"lengths": LENGTHS, "batch_tokens": TOKENS}
    found |= {kind: {"training_tokens_per_s": [], "decoding_ms": []} for kind in ARCHITECTURES}
    for length in LENGTHS:
        trained = _fastest({kind: _bound(run, length) for kind, run in training.items()})
        decoded = _fastest({kind: _bound(run, length) for kind, run in decoding.items()})
        for kind in ARCHITECTURES:
            found[kind]["training_tokens_per_s"].append(round(TOKENS // length * length / trained[kind]))
            found[kind]["decoding_ms"].append(round(1000 * decoded[kind], 2))
    return found


def _bound(run: Callable[[int], None], length: int) -> Callable[[], None]:
    return lambda: run(length)


def _fastest(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Run all in turns; the least processor time of each in seconds, the first round not counted."""
    best = dict.fromkeys(runs, float("inf"))
    for number in range(_ROUNDS):
        for kind, run in runs.items():
            start = time.process_time()
            run()
            if number:
                best[kind] = min(best[kind], time.process_time() - start)
    return best


def _batch(config: AnyConfig, length: int) -> Batch:
    """Make a batch of equally long sentences, eos included."""
    draw = torch.Generator().manual_seed(length)
    shape = (TOKENS // length, length - 1)
    source, target = (
        torch.randint(4, config.target_vocab_size, shape, generator=draw).tolist() for _ in range(2)
    )
    return collate(source, target, pad_id=0, start_id=2, eos_id=3)


def _training(config: AnyConfig) -> Callable[[int], None]:
    model = new_model(config).train()
    loss_of = BatchLoss(model, precision="fp32", pad_id=0)

    def run(length: int) -> None:
        loss, _ = loss_of(_batch(config, length), 0.1)
        loss.backward()
        model.zero_grad(set_to_none=True)

    return run


def _decoding(config: AnyConfig) -> Callable[[int], None]:
    model: EncoderDecoder = new_model(config).eval()

    def run(length: int) -> None:
        source = torch.randint(4, config.source_vocab_size, (1, length))
        # No token is the end: every sentence takes as many steps as it is long.
        greedy_decode(model, source, torch.tensor([length]), bos=2, eos=-1, max_length=length)

    return run
