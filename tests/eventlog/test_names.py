"""Chat key <-> folder name."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.eventlog import InvalidKey
from chatfold.eventlog.keys import chat_key, folder_name, is_hashed

# Every code point, lone surrogates too, and the characters that file systems trip over.
characters = (
    st.characters(exclude_categories=())
    | st.characters(categories=["Cs"])
    | st.sampled_from("./\\:=_-~ \0Aaß\u017f\u212a\x7f")
)
keys = st.text(characters, min_size=1, max_size=80) | st.text(
    st.sampled_from("ab=é"), min_size=100, max_size=300
)


@given(keys)
@example("..")
@example("a/../../etc/passwd")
@example("C:\\con")
@example("x" * 10_000)
@example("é" * 67)
def test_a_name_is_plain_and_short(key: str) -> None:
    name = folder_name(key)
    assert re.fullmatch(r"[a-z0-9_=-]{1,200}", name)
    assert name == name.casefold()


@given(keys)
@example("\ud800")
@example("=")
@example("=41")
@example("con")
def test_a_name_tells_its_key_or_says_that_it_cannot(key: str) -> None:
    name = folder_name(key)
    assert chat_key(name) == (None if is_hashed(name) else key)


@given(keys, keys)
@example("a", "A")
@example("=61", "a")
@example("é", "e\u0301")
@example("k" * 300, "k" * 301)
@example("ß", "ss")
@example("con", "=63on")
def test_two_keys_never_share_a_folder(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


@given(
    st.text(st.sampled_from("aAbB=1é/"), min_size=1, max_size=4),
    st.text(st.sampled_from("aAbB=1é/"), min_size=1, max_size=4),
)
def test_two_keys_never_share_a_folder_where_case_is_ignored(one: str, other: str) -> None:
    assert (folder_name(one).casefold() == folder_name(other).casefold()) == (one == other)


@pytest.mark.parametrize("length", [199, 200, 201, 10_000])
@pytest.mark.parametrize("character", ["k", "é", "A"])
def test_a_name_is_hashed_only_when_it_is_too_long(character: str, length: int) -> None:
    key = character * length
    assert is_hashed(folder_name(key)) == (length * {"k": 1, "é": 6, "A": 3}[character] > 200)


def test_a_hashed_name_is_no_encoded_key() -> None:
    """So that no short key can be made to collide with a long one."""
    name = folder_name("k" * 300)
    assert is_hashed(name)
    assert folder_name(name) != name
    assert chat_key(name) is None


@pytest.mark.parametrize("device", ["con", "prn", "aux", "nul", "com1", "com9", "lpt1", "lpt9"])
@pytest.mark.parametrize("suffix", ["", ".txt", ".", " "])
def test_a_name_is_never_a_device_of_windows(device: str, suffix: str) -> None:
    for key in (device + suffix, device.upper() + suffix):
        name = folder_name(key)
        assert re.split(r"[. ]", name)[0] != device
        assert chat_key(name) == key


@pytest.mark.parametrize("key", ["", None, 5, b"bytes"])
def test_what_is_not_a_non_empty_string_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey):
        folder_name(key)


@given(st.text(st.sampled_from("abAB019=_-.é\0/"), max_size=12) | st.just("a" * 201))
@example("")
@example("..")
@example("=")
@example("=6")
@example("=61")
@example("=zz")
@example("=ff")
@example("con")
@example("A")
def test_a_folder_of_another_name_is_not_ours(name: str) -> None:
    key = chat_key(name)
    assert key is None or folder_name(key) == name
