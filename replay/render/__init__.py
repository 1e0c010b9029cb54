"""render: values of ``inspect`` as lines. A line is words in styles, and where it points to; the verbs print lines, the stepper shows them.

Nothing here reads a chat, and nothing knows how wide a terminal is. Texts are as they were said: who prints a line makes it safe.
"""
