"""Terms with translations of their own: where they come from, and how they get into a sentence."""
