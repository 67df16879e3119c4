"""Sentence pairs that a corpus lacks, made from those that it has."""
