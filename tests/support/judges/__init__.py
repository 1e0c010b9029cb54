"""Whether a store is as it must be after what was done to it."""
