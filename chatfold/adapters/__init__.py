"""Doors for frameworks: chats of a ``Store`` as the sessions, checkpoints or streams that a framework knows.

Each is one module and an extra, and keeps two promises: what the framework gives comes back as it was, and the log says it in the
words of events, so that ``log``, ``why``, ``diff`` and ``view`` work on what a framework wrote. What events have no word for is in the
event's ``meta`` and is erased with it.
"""

NOTES = frozenset({"langgraph"})
"""The names of notes that adapters keep for themselves: what they say of a chat, its events say, too."""
