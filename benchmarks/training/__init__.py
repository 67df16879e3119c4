"""How fast training is, and models that are trained to be measured."""
