"""What a model is sent, and what a client shows, in the shapes of providers: both directions in one module each."""

PROMPT_RULES = 3
"""Of the rules by which entries become messages, and messages a request. Whatever changes a request raises it: recordings
are proved by making their requests again. ``tests/golden/requests`` has what the rules of each number make."""
