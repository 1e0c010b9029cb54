"""Chats as files: one chat is one folder of readable JSON lines, for any number of processes on one machine.

Who calls whom. Arrows go down: nothing here calls what stands above it.

    FileStorage                     the verbs; FileReading, its base, has those that only read
      |-- CommitQueue               appends: written at once if the chat is free, else in groups; synced on threads
      |     |-- Threads, Inbox      the threads that sync; the way of the answers back to a loop
      |     `-- OpenChat            one chat: its writer, and the appends that wait for its turn
      |           `-- LogWriter     one thread at a time: lock, catch up, number, write, unlock; sync without the lock.
      |                 |           HeldLog, its base, has what it holds: lock, open segment, ``head``; and rolls
      |                 |-- Seen              which ids, keys and texts there were: ``batch`` asks
      |                 |-- LogReader         where the log ends, now that others have written
      |                 `-- SegmentWriter     the open segment: append, cut back, sync, seal
      |-- LogReader                 pages of verified bytes, without a lock
      |     `-- LogEnd              the tail; ``recovery`` classifies what follows it
      |           `-- ChatSegments  which files there are; Continuity: are they this chat's
      |-- StoreListing              which chats there are: a token and a row of each
      |-- Notifier                  followers: who appended here, what changed on disk
      |-- Preparation               once a storage, before its first change: what a killed process left
      `-- fork, redact, importer, trash_chat      whole folders, or whole segments, one rename each
    Disk                            under all of them: every call to the operating system, and the seam of the tests

``Tail`` is where a log ends: the segment, and the seq, link and byte after its last whole batch. It never changes. A chat that is
written has one ``TailCell``: its ``LogWriter`` puts the next tail in after each write, and nothing takes it back. Nobody is told:
each ``LogReader`` of the chat looks into the cell, and looks on from there for what other processes have written.

An append. ``FileStorage`` hands it to ``CommitQueue``. If the chat is free and there is nothing to wait for, ``LogWriter.commit``
runs on the event loop: it takes the lock, sees that the segment ends where its tail says, numbers, writes once, unlocks. A thread
syncs and answers. Otherwise a thread does all of it, for all appends that came meanwhile. ``head`` is written a moment later, and
the caches are told of the new lines when they are asked, or after some writes.

A read. ``LogReader.tail`` says how far; pages are read up to there. ``OpenFiles`` keeps segments open and proves each time that the
file is still the one of its name, so that an erasure, a roll or a deletion is noticed. ``offsets`` and ``seen`` propose places; a line decides.
"""
