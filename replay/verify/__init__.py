"""judging: is a recording what it was, and would the agent do the same again?

``verdict`` folds it again and compares every fingerprint; ``requests`` makes one past request again and proves it. ``rehearsal`` runs an
agent's own code against the recording: ``recorded`` compares each append with what was appended then, ``answering`` speaks for the
model and the tools, ``offline`` sees to it that nobody reaches the world, ``explaining`` names the ``divergence``. ``rerunning`` is
the exception: it asks a model, in a fork. ``junit`` tells a CI.
"""
