"""Label-smoothed cross-entropy fused with the output projection, and the losses of a teacher beside it.

The logits of a batch ([tokens, V] float32) are by far its largest tensor. Here they exist one block at a
time, small enough for the last-level cache, and their gradient is formed while they are there. Measured on
two cores (6+2 layers, d 256, 4,096 tokens, bf16): updates 1.3 times as fast as with torch's cross_entropy
at a vocabulary of 4,000, and 2.1 times at 8,000.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

_BLOCK_BYTES = 16 << 20
"""Float32 bytes of one block of logits. With 9,712 words, width 128 and 7,100 tokens in fp32, blocks of 2, 4,
8 and 16 MiB took 1.8, 1.2, 1.1 and 1.0 s of processor time; the form before this one 1.45."""


_DEVICE_BLOCK_BYTES = 1 << 30
"""The same on a GPU, whose kernels want large blocks: 16 MiB would be a hundred small launches a batch."""


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocab = weight.shape[0]
        block = _BLOCK_BYTES if hidden.device.type == "cpu" else _DEVICE_BLOCK_BYTES
        rows = min(max(16, block // (4 * vocab)), max(1, hidden.shape[0]))
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        grad_bias = torch.zeros(vocab, device=weight.device) if bias is not None else None
        nll = hidden.new_zeros((), dtype=torch.float32)
        smooth = hidden.new_zeros((), dtype=torch.float32)
        off, on = smoothing / vocab, 1.0 - smoothing
        # The evenly spread share of the target is a constant: what it adds to loss and gradients needs sums
        # over the vocabulary once, not a pass over every block of logits.
        word_sum = weight.sum(dim=0, dtype=torch.float32)
        bias_sum = bias.sum() if bias is not None else 0.0
        weight = weight.to(hidden.dtype)
        exact = hidden.dtype == torch.float32
        buffer = hidden.new_empty(rows, vocab)
        for start in range(0, hidden.shape[0], rows):
            h = hidden[start : start + rows]
            target = targets[start : start + rows, None]
            logits = torch.mm(h, weight.T, out=buffer[: h.shape[0]]).float()
            if bias is not None:
                logits += bias
            at_target = logits.gather(1, target)
            torch.log_softmax(logits, dim=-1, out=logits)
            log_p = logits.gather(1, target)
            nll -= log_p.sum()
            sums = h.float() @ word_sum + bias_sum
            smooth += vocab * (at_target - log_p).sum() - sums.sum()
            # d loss / d logits = softmax - on * one-hot - off, written over the logits; off comes last.
            grad = logits.exp_()
            grad.scatter_add_(1, target, grad.new_full(target.shape, -on))
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
            low = grad.to(hidden.dtype)
            torch.mm(low, weight, out=grad_hidden[start : start + rows])
            if exact:
                grad_weight.addmm_(low.T, h)
            else:
                grad_weight += low.T @ h
        if off:
            grad_hidden -= (off * word_sum).to(hidden.dtype)
            grad_weight -= off * hidden.sum(dim=0, dtype=torch.float32)
            if grad_bias is not None:
                grad_bias -= off * hidden.shape[0]
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return on * nll + off * smooth, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        scale = grads[0]
        bias = None if grad_bias is None else grad_bias * scale
        return grad_hidden * scale.to(grad_hidden.dtype), grad_weight * scale, bias, None, None


def projected_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sum the label-smoothed cross-entropy of ``hidden @ weight.T + bias`` (Szegedy et al., 2016, section 7).

    Args:
        hidden: [tokens, E], decoder states of real target positions (no padding). Its dtype is the one of the
            products: bfloat16 under autocast; sums are float32.
        weight: [V, E].
        bias: [V] or None.
        targets: int64 [tokens].
        smoothing: share of probability spread evenly over the vocabulary, in [0, 1).

    Returns:
        The smoothed loss, and the plain negative log-likelihood without gradient; both float32 sums.
    """
    loss, nll = _ProjectedCrossEntropy.apply(hidden, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll.detach()


def teacher_loss(
    logits: Tensor, taught: Tensor, kind: Literal["cross_entropy", "logits"], temperature: float = 1.0
) -> Tensor:
    """Sum over tokens how far a student is from its teacher.

    ``cross_entropy``: -sum_w q(w) log p(w) of the softened distributions q and p, times the squared
    temperature so that gradients keep their size (Hinton et al., 2015, equation 1 and section 2.1).
    ``logits``: the mean over the vocabulary of (z - v)^2 (Ba and Caruana, 2014, equation 2), both centered,
    since a constant added to all logits changes nothing.

    Args:
        logits: float32 [tokens, V], of the student.
        taught: float32 [tokens, V], of the teacher; gets no gradient.
        kind: of loss.
        temperature: of the distributions.
    """
    if kind == "logits":
        difference = logits - taught
        return difference.var(dim=-1, correction=0).sum()
    log_p = torch.log_softmax(logits / temperature, dim=-1)
    q = torch.softmax(taught / temperature, dim=-1)
    return -(q * log_p).sum() * temperature**2
