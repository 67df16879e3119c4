"""Text in, text out: splits texts into sentences, hands their token ids to the engine, rejoins the results."""
