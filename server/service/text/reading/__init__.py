"""Texts are read: cut into sentences to translate and everything else, which is copied."""
