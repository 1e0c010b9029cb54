"""Peer: whose process is at the other end of a connection on this machine.

The kernel is asked for the one socket (``sock_diag(7)``), which takes microseconds. Where it does not answer, the tables of all sockets
are read, which takes milliseconds for each request.
"""

import os
import socket
import struct
from pathlib import Path

from starlette.types import Scope

_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY, and the type of its answer
_HEADER = struct.Struct("=IHHII")  # length, type, flags, number, port
_REQUEST = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_SOCKET = struct.Struct("!HH4s12x4s12xIII")  # ports, addresses, interface and cookie
_UID = (
    _HEADER.size + 4 + _SOCKET.size + 12
)  # in the answer: after its own beginning, the socket and three counters
_ANY = 0xFFFFFFFF
_HOME = socket.inet_aton("127.0.0.1")
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_own_peer(scope: Scope) -> bool:
    """From this machine and, where the system tells whose a socket is, of this user or of root."""
    client, server = scope.get("client"), scope.get("server")
    if client is None or client[0] not in ("127.0.0.1", "::1"):
        return False
    uid = socket_owner(client[1], server[1]) if server else None
    return uid is None or uid in (0, os.geteuid())


def socket_owner(port: int, to: int) -> int | None:
    """The user whose socket on this machine is connected from one port to another; None: nobody can tell."""
    try:
        found = ask_kernel(port, to)
    except (OSError, AttributeError):  # no Linux, or none that may be asked
        found = None
    return search_tables(port, to) if found is None else found


def ask_kernel(port: int, to: int) -> int | None:
    """None: it knows no such socket."""
    family: int = socket.AF_NETLINK
    body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY)
    body += _SOCKET.pack(port, to, _HOME, _HOME, 0, _ANY, _ANY)
    with socket.socket(family, socket.SOCK_DGRAM, _DIAG) as link:
        link.settimeout(1)
        link.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, 1, 0, 0) + body)
        answer = link.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    [uid] = struct.unpack_from("=I", answer, _UID)
    return int(uid)


def search_tables(port: int, to: int) -> int | None:
    ends = f":{port:04X}", f":{to:04X}"
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                return int(fields[7])
    return None
