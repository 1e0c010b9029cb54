"""step: through a chat in the terminal."""
