"""Models of other projects become checkpoints and bundles, and the other way round."""
