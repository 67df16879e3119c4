"""What comes out of a model gets the shape of its source, and is checked."""
