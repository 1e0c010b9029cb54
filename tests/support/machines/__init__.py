"""The two sides of the chat machine: what it does, and the stores it drives side by side."""
