"""agent is what an embedder holds. So far: how a view of a chat is opened, at its end or at any earlier entry.

opened = await open_view(log, "chat-42")                # the newest snapshot, and the entries after it
messages(opened.view, await window_entries(log, "chat-42", opened))
past = await open_view(log, "chat-42", at=1_000)        # the same fold, stopped earlier
"""

from agent.opening import Opened as Opened
from agent.opening import keep_view as keep_view
from agent.opening import open_view as open_view
from agent.opening import window_entries as window_entries
