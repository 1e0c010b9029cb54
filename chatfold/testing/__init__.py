"""For the authors of storages: the suite that holds every storage to one contract. Needs ``chatfold[testing]``.

``conformance`` has all that a test file imports; docs/storages.md shows one.
"""
