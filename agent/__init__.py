"""agent is what an embedder holds: a ``Store`` of chats, and a ``Chat`` to write and read.

    async with Store("./chats") as store:                       # or Store.memory()
        chat = await store.chat("telegram-chat-42")             # nothing on disk until the first event
        await chat.user("Why does the lexer drop newlines?")    # durable on return
        await chat.messages("openai")                           # what the model is sent next
        then = await chat.at(2)                                 # the same folds, stopped earlier

What is promised. Everything a chat shows is folded from its log, everything it does is an event; a verb that refuses has
left no trace. Any number of processes may hold one chat: each takes in what the others wrote. Async is what may wait; what
is in memory is read without ``await``.

Where to look: ``opening`` how a view is reached, ``moment`` what can be read, ``chat`` what can be done, ``shelf`` and
``compaction`` how it is decided.
"""

from agent.chat import Chat as Chat
from agent.compaction import HISTORY as HISTORY
from agent.compaction import IN_MEMORY as IN_MEMORY
from agent.compaction import Policy as Policy
from agent.errors import CannotFit as CannotFit
from agent.errors import NoSuchContext as NoSuchContext
from agent.errors import OtherHistory as OtherHistory
from agent.errors import SummaryFailed as SummaryFailed
from agent.listing import Listed as Listed
from agent.moment import Moment as Moment
from agent.opening import Opened as Opened
from agent.opening import keep_view as keep_view
from agent.opening import open_view as open_view
from agent.opening import window_entries as window_entries
from agent.says import assistant as assistant
from agent.says import system as system
from agent.says import user as user
from agent.store import Store as Store
from agent.summary import Material as Material
from eventlog import NoSuchPoint as NoSuchPoint
