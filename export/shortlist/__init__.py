"""Lexical tables and the graphs whose projection takes a subset of the vocabulary."""
