"""The compared systems, each in a process of its own, and how they take turns."""
