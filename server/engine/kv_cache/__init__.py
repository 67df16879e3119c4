"""The key/value cache: rows, memory, budget."""
