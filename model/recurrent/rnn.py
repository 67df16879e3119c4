"""A recurrent encoder-decoder with attention, for comparison with the Transformer.

Encoder: gated recurrent units that read a sentence in both directions, whose states are the annotations
h_s = [h_s forward; h_s backward] (Bahdanau et al., 2015, section 3.2 and appendix A). Decoder: gated
recurrent units whose bottom layer asks the annotations by the general score of Luong et al. (2015, equations
7 and 8),

    a_t(s) = softmax_s(h_t W_a h_s),   c_t = sum_s a_t(s) h_s,

and a last layer that joins both in the attentional vector tanh(W_c [c_t; h_t]) (their equation 5), from which
the next word is predicted. The context also enters all layers above the bottom one, and layers of equal width
are residual (Wu et al., 2016, "Google's Neural Machine Translation System", sections 3.1 and 3.2). The
context does not enter the bottom layer of the next step (input feeding, Luong et al., section 3.3): with that
a target could not be read by one call of a recurrent kernel, only word by word.

Shapes: N sentences, R rows, S source length, T target length, E width of embeddings, H width of states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from model.attention import padding_mask
from model.config import RnnConfig
from model.encoder_decoder import EncoderDecoder
from model.layers import Dropout


@dataclass
class RecurrentCache:
    """States of a batch that is decoded step by step; owned by whoever runs the steps.

    Attributes:
        states: one a layer, [R, H].
        memory: [R, S, H], from the encoder.
        mask: bool [R, 1, S], true on real source tokens.
    """

    states: list[Tensor]
    memory: Tensor
    mask: Tensor


class BidirectionalLayer(nn.Module):
    """Two recurrences over a source, each of width H / 2: one from its first token, one from its last."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.ahead = nn.GRU(width, states // 2, batch_first=True)
        self.back = nn.GRU(width, states // 2, batch_first=True)

    def forward(self, x: Tensor, mirrored: Tensor) -> Tensor:
        """Map [N, S, E or H] to [N, S, H].

        Args:
            x: right-padded: the recurrence ahead meets padding after all that counts.
            mirrored: of `mirror`: so does the one back.
        """
        ahead, _ = self.ahead(x)
        back, _ = self.back(_taken(x, mirrored))
        return torch.cat([ahead, _taken(back, mirrored)], dim=-1)


def mirror(lengths: Tensor, width: int) -> Tensor:
    """Give for each position the one that mirrors it within its own sentence; padding stays where it is.

    Args:
        lengths: int64 [N].
        width: S, of the padded tensor.

    Returns:
        int64 [N, S], its own inverse.
    """
    places = torch.arange(width, device=lengths.device)[None, :]
    return torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)


def _taken(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


class Rnn(EncoderDecoder):
    """Recurrent encoder-decoder with attention. Trained and evaluated, not exported."""

    config: RnnConfig

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        self.config = config
        width, states = config.d_model, config.state_dim
        self.source_embedding = nn.Embedding(config.source_vocab_size, width)
        self.target_embedding = (
            self.source_embedding
            if config.share_source_target_embeddings
            else nn.Embedding(config.target_vocab_size, width)
        )
        self.encoder = nn.ModuleList(
            BidirectionalLayer(states if layer else width, states) for layer in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            nn.GRU(2 * states if layer else width, states, batch_first=True)
            for layer in range(config.decoder_layers)
        )
        self.start = nn.Linear(states, config.decoder_layers * states)
        self.query = nn.Linear(states, states, bias=False)
        self.attentional = nn.Linear(2 * states, width)
        self.dropout = Dropout(config.dropout)
        self.projection = nn.Linear(width, config.target_vocab_size, bias=False)
        self._initialise()
        if config.tie_output:
            self.projection.weight = self.target_embedding.weight

    @property
    def decoder_layers(self) -> list[nn.GRU]:
        """Decoder layers, bottom to top."""
        return cast(list[nn.GRU], list(self.decoder))

    def _initialise(self) -> None:
        # Embeddings and Glorot products as in the Transformer. Recurrent products start orthogonal, each
        # gate's own, so that states neither grow nor vanish (Saxe et al., 2014).
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
            elif isinstance(module, nn.GRU):
                for name, weight in module.named_parameters():
                    if name.startswith("bias"):
                        nn.init.zeros_(weight)
                    else:
                        fill = nn.init.xavier_uniform_ if "_ih_" in name else nn.init.orthogonal_
                        for gate in weight.detach().chunk(3):
                            fill(gate)

    def _embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        return self.dropout(embedding(ids) * math.sqrt(self.config.d_model))

    def encode(self, source_ids: Tensor, source_lengths: Tensor) -> Tensor:
        """Encode padded sources, int64 [N, S], into annotations [N, S, H]; padding never reaches them."""
        mirrored = mirror(source_lengths, source_ids.shape[1])
        x = self._embedded(self.source_embedding, source_ids)
        for number, layer in enumerate(self.encoder):
            y = self.dropout(layer(x, mirrored))
            x = x + y if number else y
        return x

    def decode_hidden(self, target_ids: Tensor, memory: Tensor, source_lengths: Tensor) -> Tensor:
        """Read whole targets; returns attentional vectors [N, T, E] before the output projection."""
        states = self._first_states(memory, source_lengths)
        mask = padding_mask(source_lengths, memory.shape[1])[:, 0]
        return self._advance(target_ids, states, memory, mask)[0]

    def start_cache(self, memory: Tensor, source_lengths: Tensor, capacity: int) -> RecurrentCache:
        """Prepare step-by-step decoding; any number of positions takes the same memory."""
        mask = padding_mask(source_lengths, memory.shape[1])[:, 0]
        return RecurrentCache(self._first_states(memory, source_lengths), memory, mask)

    def decode_step(self, input_ids: Tensor, positions: Tensor, cache: RecurrentCache) -> Tensor:
        """Decode one position; returns scores [R, V]. States know their position, so none is read."""
        hidden, cache.states = self._advance(input_ids, cache.states, cache.memory, cache.mask)
        return self.projection(hidden)[:, 0]

    def attention_weights(self, source_ids: Tensor, source_lengths: Tensor, target_ids: Tensor) -> Tensor:
        """Compute a_t(s) of known targets, [N, T, S]; every row sums to 1."""
        memory = self.encode(source_ids, source_lengths)
        state = self._first_states(memory, source_lengths)[0]
        x = self._embedded(self.target_embedding, target_ids)
        asked, _ = self.decoder_layers[0](x, state[None])
        return self._attention(asked, memory, padding_mask(source_lengths, memory.shape[1])[:, 0])

    def _first_states(self, memory: Tensor, lengths: Tensor) -> list[Tensor]:
        """Start every layer from what each direction had read at its end: tanh(W_s h) (Bahdanau et al.)."""
        ahead, back = memory.chunk(2, dim=-1)
        rows = torch.arange(memory.shape[0], device=memory.device)
        ends = torch.cat([ahead[rows, lengths - 1], back[:, 0]], dim=-1)
        return list(torch.tanh(self.start(ends)).chunk(self.config.decoder_layers, dim=-1))

    def _attention(self, asked: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        scores = self.query(asked) @ memory.to(asked.dtype).transpose(1, 2)
        return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)

    def _advance(
        self, ids: Tensor, states: list[Tensor], memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Read ids [R, T] from ``states``; returns attentional vectors [R, T, E] and the states then."""
        layers = self.decoder_layers
        x = self._embedded(self.target_embedding, ids)
        x, last = layers[0](x, states[0][None].to(x.dtype).contiguous())
        after = [last[0]]
        context = self._attention(x, memory, mask).to(memory.dtype) @ memory
        for layer, state in zip(layers[1:], states[1:], strict=True):
            below = torch.cat([self.dropout(x), context.to(x.dtype)], dim=-1)
            y, last = layer(below, state[None].to(x.dtype).contiguous())
            x = x + y
            after.append(last[0])
        joined = torch.cat([x, context.to(x.dtype)], dim=-1)
        return self.dropout(torch.tanh(self.attentional(joined))), after
