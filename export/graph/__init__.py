"""The model as ONNX graphs, and what runs them while exporting."""
