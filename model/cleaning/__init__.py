"""A training corpus out of several sources: filtered, without duplicates, each line with its origin."""
