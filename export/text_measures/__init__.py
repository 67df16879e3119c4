"""What the server's text layer must know of a model: measured on its own graphs, kept in its bundle."""
