"""Throughput and latency, each next to the limit or the peer it is held to.

    python -m benchmarks                    every suite
    python -m benchmarks eventlog           one of them
    python -m benchmarks eventlog --quick   under a minute, without the largest sizes
    python -m benchmarks projections        what chats add up to: opening, folding, rebuilding, searching
    python -m benchmarks replay             the commands of the debugger, on a long chat next to a short one

Run from the root of the repository. A table goes to the terminal, the same rows as JSON to
``benchmarks/results/<suite>.json``. Stores are made in ``benchmarks/.tmp``, on the disk the repository is on, and
removed at the end, also after Ctrl-C. Raw SQLite is a peer that is always there; others are measured if they are
installed: ``pip install -e '.[bench]'``.

What a number does not mean. A rate is this machine's, this disk's, this hour's: quote the ratio, which is taken
between two cases of one round and then as the median of the rounds. Ratios within about 1.3 of each other are a
tie. The page cache is warm throughout, in "cold" processes too: cold means a new process, without its start
and its imports. Durable means that the system said so; nobody pulled a plug. A row without a target is there to
tell where the time goes.
"""
