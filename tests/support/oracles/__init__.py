"""The most obvious way to compute what the engine computes, and the providers' own rules."""
