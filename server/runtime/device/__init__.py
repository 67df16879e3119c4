"""ONNX Runtime on a GPU: caches, ranking and CUDA graphs that stay on the device."""
