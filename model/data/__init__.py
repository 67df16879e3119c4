"""Corpora, vocabularies, token tables and batches."""
