"""Text in, text out: splits texts into sentences, hands token ids to the engine, rejoins the results."""
