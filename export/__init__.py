"""Turns a trained checkpoint into a bundle: ONNX graphs, tokenizer and manifest."""

import os

# From 1.29 on, ONNX Runtime's Linux builds report what they load and run to their maker, unless this is set
# before they are imported. Nobody's translations are anybody else's business. An operator's setting holds.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
