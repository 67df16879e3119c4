"""The recurrent network that the Transformer replaced, to be trained and measured beside it."""
