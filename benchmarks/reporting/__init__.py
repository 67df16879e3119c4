"""Results: kept, summed up, written as tables and pictures."""
