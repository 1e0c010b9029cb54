"""verbs: those of the command line. Each asks ``inspect`` for values and prints the lines that ``render`` makes of them."""
