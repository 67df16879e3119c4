"""dragoman beside CTranslate2 and transformers on a GPU."""
