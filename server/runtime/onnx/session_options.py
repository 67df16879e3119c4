"""How sessions of ONNX Runtime are opened and run.

Settings that were measured, not assumed:

- The fusion of Add + LayerNormalization into SkipLayerNormalization is kept out: a decoder step of 6 layers
  of 512 with 32 rows takes 12.8 ms with it and 11.5 without. Leaving out all extended optimisations gives
  11.3, too little to forgo them for every graph to come.
- Spinning is off but for a worker alone: a spinning thread takes a core from a worker that has something to
  do.
- Memory patterns are off: they are kept per combination of shapes, and ours change with every sentence. No
  difference in speed was seen, with or without them.
- The memory arena, which all workers share, is off where every thread keeps what it frees; see
  `server.process_tuning`. A worker alone has one for itself, and is 2 % faster with it. What is done beside a
  device has one, as it had where that was measured.
"""

from collections.abc import Sequence
from pathlib import Path

import onnxruntime as ort

from server.process_tuning import keeps_blocks
from server.runtime.onnx.capture_lock import DEVICE_GATE

Provider = str | tuple[str, dict[str, str]]

CPU = ["CPUExecutionProvider"]
SILENT = 4
"""Severity of what ONNX Runtime prints: nothing. An error is raised, too, and our log says it in one line."""

_SLOW_FUSIONS = ["SkipLayerNormFusion"]


def open_session(
    file: Path, options: ort.SessionOptions, providers: Sequence[Provider]
) -> ort.InferenceSession:
    """Load a graph without the fusions that are slower, on a CPU, than what they replace."""
    disabled = _SLOW_FUSIONS if list(providers) == CPU else []
    # With its fallback, what it cannot load is printed to standard output and tried again on the processor.
    with DEVICE_GATE.together():
        return ort.InferenceSession(
            str(file), options, providers=list(providers), disabled_optimizers=disabled, enable_fallback=0
        )


def session_options(
    intra_op_threads: int, providers: Sequence[Provider] = CPU, *, spin: bool = False
) -> ort.SessionOptions:
    """Options of a session; the module's docstring says why.

    With `spin` its threads wait for work by spinning, until the run ends; for one run at a time.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = spin or list(providers) != CPU or not keeps_blocks()
    options.log_severity_level = SILENT
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def run_options() -> ort.RunOptions:
    """Options of every run; graph capture is a matter of WebGPU and CUDA, and off.

    Saying so saves time on the CPU: where the entry is missing, `run_with_iobinding` looks for it, raises and
    catches an exception, which took 0.08 ms of a step of 3 ms.
    """
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "-1")
    return options
