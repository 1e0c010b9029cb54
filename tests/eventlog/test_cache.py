"""A cache file says what was put into it, or is a miss."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.cache import Cache, CacheFile, Span, begin_erasure_epoch
from chatfold.eventlog.files.disk import Disk

SPAN = Span(1, "0" * 16, 7, "a" * 16)
KIND = "test 1"

payloads = st.binary(max_size=300)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, Disk())


def new_cache(factory: pytest.TempPathFactory) -> tuple[Cache, Path]:
    folder = factory.mktemp("chat")
    return Cache(folder, Disk()), folder / "cache" / "one"


def content(file: CacheFile | None) -> tuple[Span, bytes] | None:
    return (file.span, file.payload) if file else None


@given(payload=payloads, blocks=payloads, in_place=st.booleans())
def test_what_is_stored_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, blocks: bytes, in_place: bool
) -> None:
    cache, path = new_cache(tmp_path_factory)
    assert cache.store("one", KIND, SPAN, payload, "", blocks, in_place=in_place)
    found = cache.load("one", KIND)
    assert content(found) == (SPAN, payload)
    assert found is not None
    assert path.read_bytes()[found.blocks :] == blocks
    assert found.span.head == Head(7, "a" * 16)


@given(payload=payloads, place=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_file_that_was_cut_or_changed_is_a_miss(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, place: int, bit: int
) -> None:
    cache, path = new_cache(tmp_path_factory)
    assert cache.store("one", KIND, SPAN, payload, "")
    whole = path.read_bytes()
    path.write_bytes(whole[: place % len(whole)])
    assert cache.load("one", KIND) is None
    flipped = bytearray(whole)
    flipped[place % len(whole)] ^= 1 << bit
    path.write_bytes(bytes(flipped))
    assert cache.load("one", KIND) is None


@given(old=payloads, new=payloads, written=st.integers(0, 1 << 20))
def test_a_file_that_was_torn_while_it_was_written_in_place_is_a_miss(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes, written: int
) -> None:
    cache, path = new_cache(tmp_path_factory)
    files: list[bytes] = []
    for payload in (old, new):
        assert cache.store("one", KIND, SPAN, payload, "", in_place=True)
        files.append(path.read_bytes())
    count = written % (len(files[1]) + 1)
    path.write_bytes(files[1][:count] + files[0][count:])
    assert content(cache.load("one", KIND)) in (None, (SPAN, old), (SPAN, new))


def test_nothing_of_a_longer_file_is_left_when_it_is_written_in_place(cache: Cache, tmp_path: Path) -> None:
    assert cache.store("one", KIND, SPAN, b"a secret" * 100, "", in_place=True)
    assert cache.store("one", KIND, SPAN, b"short", "", in_place=True)
    assert content(cache.load("one", KIND)) == (SPAN, b"short")
    assert b"secret" not in (tmp_path / "cache" / "one").read_bytes()


def test_a_file_of_another_kind_or_version_is_a_miss(cache: Cache) -> None:
    assert cache.store("one", KIND, SPAN, b"x", "")
    assert cache.load("one", "test 2") is None
    assert cache.load("one", "other 1") is None


def test_a_file_counts_in_its_epoch_only(cache: Cache, tmp_path: Path) -> None:
    assert cache.store("one", KIND, SPAN, b"x", "")
    old = (tmp_path / "cache" / "one").read_bytes()
    begin_erasure_epoch(Disk(), tmp_path)
    assert cache.load("one", KIND) is None
    assert not cache.store("one", KIND, SPAN, b"x", "")  # made from what was read before
    epoch = cache.epoch()
    assert cache.store("one", KIND, SPAN, b"y", epoch)
    assert content(cache.load("one", KIND)) == (SPAN, b"y")
    (tmp_path / "cache" / "one").write_bytes(old)
    assert cache.load("one", KIND) is None
    begin_erasure_epoch(Disk(), tmp_path)
    assert cache.epoch() not in ("", epoch)


class ErasedMeanwhile(Disk):
    def create(self, path: Path) -> int:
        if ".one." in path.name:
            begin_erasure_epoch(Disk(), path.parents[1])
        return super().create(path)


def test_a_file_that_an_erasure_has_not_seen_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, ErasedMeanwhile())
    assert not cache.store("one", KIND, SPAN, b"x", "")
    assert cache.names() == []


def test_without_a_known_epoch_nothing_counts(tmp_path: Path) -> None:
    cache = Cache(tmp_path, Disk())
    assert cache.store("one", KIND, SPAN, b"x", "")
    (tmp_path / "erased").mkdir()
    assert cache.load("one", KIND) is None
    assert not cache.store("one", KIND, SPAN, b"x", cache.epoch())


def test_a_cache_that_may_not_write_changes_nothing(tmp_path: Path) -> None:
    assert Cache(tmp_path, Disk()).store("one", KIND, SPAN, b"x", "")
    reader = Cache(tmp_path, Disk(), may_write=False)
    assert not reader.store("one", KIND, SPAN, b"y", "")
    reader.remove("one")
    assert content(reader.load("one", KIND)) == (SPAN, b"x")


@pytest.mark.parametrize("plant", ["file", "link"])
def test_what_stands_in_the_place_of_the_folder_is_not_followed(tmp_path: Path, plant: str) -> None:
    (tmp_path / "chat").mkdir()
    other = Cache(tmp_path, Disk())
    assert other.store("one", KIND, SPAN, b"x", "")
    if plant == "file":
        (tmp_path / "chat" / "cache").write_bytes(b"")
    else:
        (tmp_path / "chat" / "cache").symlink_to(tmp_path / "cache")
    cache = Cache(tmp_path / "chat", Disk())
    assert cache.load("one", KIND) is None
    assert not cache.store("two", KIND, SPAN, b"y", "")
    cache.remove("one")
    assert other.names() == ["one"]
