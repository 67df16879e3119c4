"""Weights out of bundles."""
