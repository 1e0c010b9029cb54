"""Disks that fail: simulated, faulty, or real and mounted for the test."""
