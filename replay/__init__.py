"""replay is for looking at chats from outside: the ``chatfold`` command today, the debugger later.

It reads what ``eventlog`` keeps and never changes a chat unless the verb says so (``demo``, ``check --repair``).
Nothing below it imports it. Everything that knows a terminal lives here.
"""
