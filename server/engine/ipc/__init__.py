"""What the server and a worker process say to each other, and over what."""
