"""What a model is sent, and what a client shows, in the shapes of providers: both directions in one module each."""
