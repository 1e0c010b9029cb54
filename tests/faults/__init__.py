"""Real processes, real files, real kills: what the log does when everything around it breaks."""
