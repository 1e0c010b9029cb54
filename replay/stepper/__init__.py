"""stepping: through a chat in the terminal.

``stepper`` is the shell: it reads keys, draws what changed, and leaves the terminal as it was. ``presses`` says what each key does to the
``state``, with ``moves``, ``acts`` and ``sieve``; ``looks`` reads what is to be seen, ``detail``, ``compared`` and ``tree`` fill the tabs,
and ``screen`` makes lines of it that fit. ``lines`` is the same without a terminal.
"""
