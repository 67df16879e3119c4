"""Pure policies of the queue: order, placement, priority; they take the time and hold no lock."""
