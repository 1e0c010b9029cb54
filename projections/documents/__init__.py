"""A chat as a document, for people to read."""
