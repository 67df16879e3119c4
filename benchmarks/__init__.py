"""dragoman beside CTranslate2 and transformers: the same weights, the same work, in turns in one run."""
