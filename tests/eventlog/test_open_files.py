"""Files that stay open are read like files that are opened anew each time, whatever is put in their place."""

import errno
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import FileStorage, Log, Noted, Redacted
from chatfold.eventlog.files.disk import Disk, OpenFiles

NAMES = ("a", "b", "c")

steps = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "rename over", "make anew", "append", "remove", "forget"]),
        st.sampled_from(NAMES),
    ),
    max_size=30,
)


def _change(path: Path, how: str, number: int) -> None:
    match how:
        case "rename over":
            other = path.with_name("other")
            other.write_bytes(b"%d" % number)
            other.replace(path)
        case "make anew":  # the inode of the one before is free, unless somebody has it open
            path.unlink(missing_ok=True)
            path.write_bytes(b"%d" % number)
        case "append":
            with path.open("ab") as file:
                file.write(b"%d" % number)
        case "remove":
            path.unlink(missing_ok=True)


def _read(files: OpenFiles, disk: Disk, path: Path) -> bytes | None:
    try:
        with files.open(path) as fd:
            return disk.pread(fd, 1 << 16, 0)
    except FileNotFoundError:
        return None


class Settling(Disk):
    """Times are long ago, and others after each change, however soon it comes."""

    def fstat(self, fd: int) -> os.stat_result:
        status = super().fstat(fd)
        changed = 10 * status.st_size + status.st_nlink
        return os.stat_result((*status[:7], 0, 0, changed), {"st_ctime_ns": 1 + changed, "st_mtime_ns": 0})


@given(steps, st.sampled_from([0, 1, 2, 8]), st.booleans())
def test_what_is_read_is_what_the_name_has(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, str]], most: int, has_settled: bool
) -> None:
    folder = tmp_path_factory.mktemp("files")
    disk = Settling() if has_settled else Disk()
    files = OpenFiles(disk, most)
    for number, (how, name) in enumerate(done):
        _change(folder / name, how, number)
        expected = (folder / name).read_bytes() if (folder / name).exists() else None
        assert _read(files, disk, folder / name) == expected
        assert len(_open_in(folder)) <= most
        if how == "forget":
            files.forget()
            assert not _open_in(folder)
    files.close()
    for name in NAMES:
        _read(files, disk, folder / name)
    assert not _open_in(folder)


def _open_in(folder: Path) -> list[str]:
    """The files of this folder that this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(fd.readlink()))
    return [name for name in found if name.startswith(str(folder))]


class FewDescriptors(Disk):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open_read(self, path: Path) -> int:
        if len(_open_in(self.folder)) >= 2:
            raise OSError(errno.EMFILE, "no more descriptors")
        return super().open_read(path)


def test_without_descriptors_those_that_are_kept_are_given_up(tmp_path: Path) -> None:
    disk = FewDescriptors(tmp_path)
    files = OpenFiles(disk, 8)
    for name in NAMES:
        (tmp_path / name).write_bytes(name.encode())
        assert _read(files, disk, tmp_path / name) == name.encode()
    with (
        files.open(tmp_path / "a"),
        files.open(tmp_path / "b"),
        pytest.raises(OSError, match="descriptors"),
    ):
        _read(files, disk, tmp_path / "c")
    files.close()


def test_a_descriptor_that_another_part_of_the_process_closed_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ours").write_bytes(b"ours")
    (tmp_path / "theirs").write_bytes(b"theirs")
    disk = Disk()
    files = OpenFiles(disk, 1)
    assert _read(files, disk, tmp_path / "ours") == b"ours"
    (kept,) = _open_in(tmp_path)
    fd = next(fd for fd in range(3, 1024) if os.path.realpath(f"/proc/self/fd/{fd}") == kept)
    os.close(fd)
    theirs = os.open(tmp_path / "theirs", os.O_RDONLY)
    assert theirs == fd
    assert _read(files, disk, tmp_path / "ours") == b"ours"
    files.close()
    assert os.pread(theirs, 9, 0) == b"theirs"
    os.close(theirs)


async def test_a_storage_reads_what_another_one_erased_and_keeps_nothing_open(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path)) as log, Log(FileStorage(tmp_path)) as other:
        await log.append("chat", Noted("said", "secret"), Noted("more"))
        assert "secret" in repr(await other.last("chat", 2))
        assert "secret" in repr(await log.last("chat", 2))
        await log.redact("chat", 1)
        for reader in (log, other):
            assert "secret" not in repr(await reader.last("chat", 3))
            assert isinstance((await reader.last("chat", 1))[0].event, Redacted)
    assert not _open_in(tmp_path)


async def test_a_chat_that_was_deleted_and_made_anew_is_read_anew(tmp_path: Path) -> None:
    async with Log(FileStorage(tmp_path)) as log, Log(FileStorage(tmp_path)) as other:
        for name in ("first", "second", "third"):
            await log.append("chat", Noted(name))
            assert [entry.event for entry in await other.last("chat", 9)] == [Noted(name)]
            await log.delete("chat")
            assert await other.last("chat", 9) == []


class CollectingPath(type(Path())):  # type: ignore[misc]
    """The collector runs where its hash is asked for, as it may anywhere."""

    def __hash__(self) -> int:
        gc.collect()
        value: int = super().__hash__()
        return value


def _forget_a_reading(files: OpenFiles, path: Path) -> None:
    def read(cycle: list[object]) -> Iterator[None]:
        with files.open(path):
            yield
            cycle.clear()

    cycle: list[object] = []
    reading = read(cycle)
    next(reading)
    cycle.append(reading)


def test_a_reading_that_the_collector_ends_gives_its_file_back(tmp_path: Path) -> None:
    """It once waited for a lock that its own thread had."""
    files = OpenFiles(Disk(), 4)
    for name in NAMES:
        (tmp_path / name).write_bytes(b"x")

    def open_another() -> None:
        _forget_a_reading(files, tmp_path / "a")
        with files.open(CollectingPath(tmp_path / "b")):
            pass

    thread = threading.Thread(target=open_another, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert {path.name for path in files._kept} == {"a", "b"}
    files.close()
