"""How the engine reaches a model: Protocols of one method each, and their ONNX Runtime implementation."""
