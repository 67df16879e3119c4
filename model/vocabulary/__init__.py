"""The pieces that text becomes: learnt from a corpus, or taken from another run."""
