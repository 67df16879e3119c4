"""Tokenizers of other projects as SentencePiece models whose ids are those of the model."""
