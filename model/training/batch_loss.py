"""The loss of a batch as a module: what training wraps for several processes and validation reads."""

from __future__ import annotations

import contextlib
import os

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from model.data.batching import Batch
from model.encoder_decoder import EncoderDecoder
from model.recipe import Distillation, Precision
from model.training.loss import projected_cross_entropy, teacher_loss

_KERNELS = 64
_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Kernels that oneDNN, and ideep between it and torch, keep with their memory: one is compiled for a shape,
and batches have new ones. With the 1,024 that they keep by themselves a run in bf16 on a CPU grew by 5 MB an
update, to 12 GB; with 64 it stays at 2.5 GB."""

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Type of the products by a recipe's precision; fp32 needs none."""


def fast_precision(wanted: Precision, device: torch.device) -> Precision:
    """Choose what a recipe's precision becomes on a device.

    Returns:
        ``wanted``, but fp32 on a CPU that has no instructions for such products: torch would compute them all
        the same, 40 times as slow (bf16 with AVX2 alone: 0.6 GFLOP/s a core, fp32 25).
    """
    if device.type != "cpu" or wanted == "fp32":
        return wanted
    supports = getattr(torch.ops.mkldnn, f"_is_mkldnn_{wanted}_supported")
    is_native = torch.backends.mkldnn.is_available() and supports()
    return wanted if is_native else "fp32"


class BatchLoss(nn.Module):
    """Owned by the training thread.

    Args:
        model: on its device.
        precision: of the products.
        pad_id: padding of the targets, which costs nothing.
        compiled: run encoder and decoder through torch.compile (a C++ compiler is needed on a CPU).
        taught: a teacher in eval mode, on the same device, and what is learned of it while training.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        *,
        precision: Precision,
        pad_id: int,
        compiled: bool = False,
        taught: tuple[EncoderDecoder, Distillation] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self._dtype = AUTOCAST.get(precision)
        if self._dtype is not None:  # read at the first product
            for name in _CACHES:
                os.environ.setdefault(name, str(_KERNELS))
        self._pad_id = pad_id
        self._taught = taught  # in a tuple: no part of this module, neither trained nor shared
        # Lengths differ from batch to batch: one graph for all of them.
        self._encode = torch.compile(model.encode, dynamic=True) if compiled else model.encode
        self._decode = torch.compile(model.decode_hidden, dynamic=True) if compiled else model.decode_hidden

    def forward(self, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the summed negative log-likelihood of a batch.

        The loss is the smoothed one, while training mixed with that of a teacher if there is one.
        """
        projection = self.model.projection
        device = projection.weight.device
        # torch's fused attention for CPUs is slow in the backward pass on short sequences: 40 % of an update
        # at 9 tokens a sentence, against 10 % for the plain form.
        plain = sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else contextlib.nullcontext()
        dtype = self._dtype or torch.float32
        with plain, torch.autocast(device.type, dtype=self._dtype, enabled=self._dtype is not None):
            lengths = batch.source_lengths.to(device)
            memory = self._encode(batch.source_ids.to(device), lengths)
            hidden = self._decode(batch.target_in.to(device), memory, lengths)
            targets = batch.target_out.to(device)
            real = targets != self._pad_id
            hidden = hidden[real].to(dtype)
            loss, nll = projected_cross_entropy(
                hidden, projection.weight, projection.bias, targets[real], smoothing
            )
            if self._taught is None or not self.training:
                return loss, nll
            teacher, wanted = self._taught
            with torch.no_grad():
                logits = teacher(batch.source_ids.to(device), lengths, batch.target_in.to(device))[real]
            distance = teacher_loss(
                projection(hidden).float(), logits.float(), wanted.loss, wanted.temperature
            )
            return (1 - wanted.weight) * loss + wanted.weight * distance, nll
