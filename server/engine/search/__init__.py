"""Greedy, beam and sampling search in numpy, with constraints and stopping criteria."""
