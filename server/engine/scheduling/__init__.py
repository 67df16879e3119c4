"""Pure policies of the queue: order, placement, priority. They take the time and hold no lock."""
