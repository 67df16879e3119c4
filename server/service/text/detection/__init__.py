"""Which language a text is written in, and whether it needs a translation at all."""
