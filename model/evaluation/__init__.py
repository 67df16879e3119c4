"""Scores, reports and pages about a trained model."""
