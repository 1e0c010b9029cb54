"""web: ``chatfold view``, the debugger as a local page: what the model saw at any point, what left its sight, when and why.

    chatfold view                       # the chats of a store
    chatfold view lexer-bug@c1^         # one chat, before its first compaction

What is promised. It reads; only with ``--write`` does it fork. It answers this machine and this user alone (``guard``). What users,
models and tools said is text in it and nothing else. It fetches nothing from anywhere else.

Where to look. ``serving`` starts and ends it, ``guard``, ``peer`` and ``session`` say who is let in, ``routes`` which address gives what.
``desk`` keeps the chats that are looked at, ``columns`` a few numbers for each entry of a chat, from which the page draws at any point
without asking; ``lines`` and ``answers`` are the values it does ask for, ``live`` what comes while it looks. ``page`` is the same page
as one file. ``static`` is the page: a module a component, named as on the screen. All values reach it through the one serialiser of
``--json``. ``vendor`` makes the one file that is not ours.
"""
