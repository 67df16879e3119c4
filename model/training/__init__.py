"""The training loop and what it needs: optimizer, schedule, losses, validation, runs."""
