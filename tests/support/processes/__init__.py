"""Programs that tests start as processes, kill, and judge by what they said."""
