"""What the text layer keeps, finds and costs, on real sentences."""
