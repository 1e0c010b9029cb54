"""Programs on the simulated disk: what they do, and what must be true of it."""
