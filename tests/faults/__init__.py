"""What the log does when its files, its callers or its surroundings are not as they should be."""
