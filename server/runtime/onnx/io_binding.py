"""Numpy arrays as the inputs and outputs of a run, where they are: nothing is copied."""

from collections.abc import Mapping

import onnxruntime as ort

from server.runtime.model_spec import Array
from server.runtime.sessions import StepBuffers

_WRITTEN = "_written_"


def bind_arrays(
    session: ort.InferenceSession,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    binding: ort.IOBinding | None = None,
) -> ort.IOBinding:
    """Bind arrays by their addresses; they must be C-contiguous and live as long as the binding.

    Args:
        session: on the processor.
        inputs: by the names of the graph's inputs.
        outputs: by the names of its outputs; the runs write them.
        binding: of the session, to be added to; a new one if None.
    """
    binding = binding or session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return binding


def bind_step(session: ort.InferenceSession, buffers: StepBuffers) -> ort.IOBinding:
    """Bind the arrays of a decoder's step; arguments as of `bind_arrays`.

    A decoder that writes its self-attention's caches itself has them as further outputs, `self_key_written_i`
    and `self_value_written_i`: bound to the same memory, or it would copy them at every step.
    """
    written = {
        node.name: buffers.inputs[node.name.replace(_WRITTEN, "_")]
        for node in session.get_outputs()
        if _WRITTEN in node.name
    }
    return bind_arrays(session, buffers.inputs, {**buffers.outputs, **written})
