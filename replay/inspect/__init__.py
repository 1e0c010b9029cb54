"""inspect: what there is to see in a chat, as values. ``render`` makes lines of them, ``serial`` JSON; the page takes them as they are.

Where: ``address`` is the grammar of points and ``points`` what they mean; ``places`` where chats are; ``cursor`` a chat at any point.
What happened: ``entries``, ``selection``, ``event``, ``pairs``. What the model sees: ``items``, ``context``. Over time: ``sizes``, ``stats``.
Questions: ``diff`` (with ``matching``), ``why``, ``compaction``. Of a store: ``listing``, ``forks``.

Nothing is written and nothing is run. Texts are as they were said: what shows them makes them harmless first.
"""
