"""Text to token ids and back: languages, sentences, markup, casing."""
