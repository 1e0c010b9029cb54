"""stepper: through a chat in the terminal.

``app`` reads keys, draws what changed, and leaves the terminal as it was (``tty``). ``keymap`` says what each key does to the ``state``, with
``moves``, ``actions`` and ``filter``; ``panes`` reads what is to be seen, ``detail`` asks ``render`` for its lines, and ``screen`` makes
a frame that fits. ``lines`` is the same without a terminal.
"""
