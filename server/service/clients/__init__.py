"""Who asks: API keys and their quotas."""
