"""What entries keep elsewhere, for a reader of very many of them.

Opening a file takes longer than reading a line of it. So the segments that are referred to stay open while the reading
lasts: a line that has to be looked for there was read before it could be erased, and says what it said then.
"""

from chatfold.eventlog.files.reader import LogReader

_MOST = 64  # files


class Quotes:
    def __init__(self, folder: LogReader) -> None:
        self._folder = folder
        self._files: dict[int, int] = {}

    def whole(self, line: bytes) -> bytes:
        return self._folder.resolve_line(line, self._line)

    def _line(self, seq: int) -> bytes:
        first = self._folder.segment_of(seq)
        fd = self._files.get(first)
        if fd is None:
            if len(self._files) == _MOST:
                self.close()
            fd = self._files[first] = self._folder.disk.open_read(self._folder.segment_path(first))
        return self._folder.line_in(first, fd, seq) or self._folder.line(seq)

    def close(self) -> None:
        for fd in self._files.values():
            self._folder.disk.close(fd)
        self._files.clear()
