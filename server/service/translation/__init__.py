"""A request's way from text to text."""
