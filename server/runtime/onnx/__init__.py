"""ONNX Runtime on the processor: sessions, options, bindings, rankers."""
