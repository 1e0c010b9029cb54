"""inspect: what there is to see in a chat, as values. The command prints them, others may show them as they like.

``address`` is the grammar of points and ``points`` what they mean; ``places`` where chats are; ``cursor`` a chat at any point. ``rows`` and
``selecting``: what happened. ``items``: what the model sees. ``comparing``, with ``matching``: what differs. ``tracing``: where a text
went. ``belonging``: what answers what. ``picture``: how large the context was, and what it all adds up to.

Nothing is written and nothing is run. Texts are as they were said: whoever shows them makes them harmless first.
"""
