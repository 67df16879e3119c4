"""What HTML is made of: tokens, elements, and the parts of a block of text."""
