"""What takes longer than a newcomer waits: real kills, power cuts, every fault point, long state machines.

A part is a module of this folder with ``campaign(number, seed, folder) -> Figures``: it breaks something ``number`` times, in
a way that follows from the seed alone where that is possible. Where the machine does not allow it, the figures say why. The
tests of this folder run each part with a small number, and ``python -m benchmarks faults`` with a large one.
"""
