"""Threads that read their first lines at the same moment, in processes that have read nothing before.

msgspec builds what it needs to know of a struct when it is first asked for it, and several threads that see it half
built take the process down. So nothing may be left to build after the import. Only a fresh process can show that.
"""

import subprocess
import sys

PROCESSES = 40

PROGRAM = """
import faulthandler, sys, threading
from chatfold.agent.tools import tool
from chatfold.eventlog import Head, Noted
from chatfold.eventlog.codec import EncodedEvent, decode, encode_event
from chatfold.eventlog.events import Entry
from chatfold.eventlog.line import build_entry_line, header_line, parse_header, parse_seal, seal_line
from chatfold.eventlog.transfer import ExportReader, _blob_line
import chatfold.replay.verify.requests

faulthandler.enable()
sys.setswitchinterval(1e-5)
header = header_line(Head())
odd = build_entry_line(Entry(1, 0, Noted("n"), prev="0" * 16), encode_event(Noted("n", b"bytes")).raw)
seal = seal_line(0, len(header) + 1, "0" * 64, b"0" * 16)
blob = _blob_line("0" * 64, b"content")

def read(what):
    barrier.wait()
    what()

def unpack():
    try:
        [*ExportReader().feed(header + b"\\n" + blob + b"\\n")]
    except Exception:
        pass  # the name of the blob is wrong

turns = [lambda: parse_header(header), lambda: parse_seal(seal), lambda: decode(odd), unpack]
for what in turns:
    barrier = threading.Barrier(12)
    threads = [threading.Thread(target=read, args=(what,)) for _ in range(12)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_threads_that_read_their_first_lines_at_once_live() -> None:
    died = []
    for _ in range(PROCESSES):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
        if done.returncode:
            died.append(f"{done.returncode}: {done.stderr[-600:]}")
    assert died == []
