"""Throughput and latency, each next to the limit or the peer it is held to. ``docs/benchmarks.md`` says what the numbers mean.

    python -m benchmarks setup              once: the peers, in an environment of their own
    python -m benchmarks                    every suite; some hours on two cores, one of them for what is measured
    python -m benchmarks --quick            every suite in two minutes, without the large sizes

    python -m benchmarks eventlog           appending, reading, opening, forking, following, bytes on disk
    python -m benchmarks projections        what chats add up to: opening, folding, rebuilding, searching
    python -m benchmarks replay             the commands of the debugger, on a long chat next to a short one
    python -m benchmarks side_by_side       the same messages and the same jobs for chatfold and its peers
    python -m benchmarks properties         the state machines of the tests, for as long as ``--seconds`` says
    python -m benchmarks faults             kills, power cuts, damage, simulated disks: what it did to the promises
    python -m benchmarks soak               an hour of writers that are killed, followers, readers: does anything grow? not by default

Run from the root of the repository. A table goes to the terminal, the same rows, one a line, to
``benchmarks/results/<suite>.jsonl`` (``results/quick`` after ``--quick``), curves as SVG beside it. Stores are made in ``benchmarks/.tmp``, on the disk the repository is on, and
removed at the end, also after Ctrl-C.

Where to look: ``conversation`` what is said, ``peers`` who keeps it and how each is used, ``child`` what they are asked to do, ``sampling`` and
``measure`` how a figure is taken and told, ``side_by_side`` and ``side_by_side_sizes`` which figures, ``picture`` the curves, ``pages`` how
they get into the documents.
"""
