"""What is translated: random models, their language, and the texts."""
