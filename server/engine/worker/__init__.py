"""One worker: its loop, its engine, its batches."""
