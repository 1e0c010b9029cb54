"""verify: is a recording what it was, and would the agent do the same again?

``verdict`` folds it again and compares every fingerprint; ``requests`` makes one past request again and proves it. ``rehearsal`` runs an
agent's own code against the recording: ``recording`` compares each append with what was appended then, ``world`` speaks for the model
and the tools, ``offline`` sees to it that nothing reaches the world, ``explanation`` names the ``divergence``. ``factory`` loads the
user's code. ``rerun_turn`` is the exception: it asks a model, in a fork. ``junit`` tells a CI.
"""
