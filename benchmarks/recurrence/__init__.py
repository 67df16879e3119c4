"""The parts of `python -m benchmarks.rnn_against_transformer`."""
