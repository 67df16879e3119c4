"""What must not change is kept: spans behind masks, tags by word alignment."""
