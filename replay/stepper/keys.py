"""What a terminal sends, as keys: characters as they are, everything else by name. What is not known is no key."""

import codecs
import re

_NAMED = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "ctrl-c",
    "\x06": "ctrl-f",
    "\x0c": "ctrl-l",
    "\x15": "ctrl-u",
}
_FINAL = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "tab"}
_NUMBER = {"1": "home", "7": "home", "4": "end", "8": "end", "5": "pageup", "6": "pagedown"}
_SEQUENCE = re.compile(r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|O([@-~]))")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
_LONGEST = 64  # characters of a sequence that never ends


class Keys:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def is_waiting(self) -> bool:
        """Could what came last be the beginning of something?"""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        keys: list[str] = []
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                keys += _key(text[at])
                at += 1
            elif found := _SEQUENCE.match(text, at):
                keys += _names_of(found)
                at = found.end()
            elif _BEGUN.fullmatch(text, at) and len(text) - at < _LONGEST:
                self._rest = text[at:]
                break
            else:
                keys.append("esc")
                at += 1
        return keys

    def flush(self) -> list[str]:
        """Nothing came after it: then it was the Escape key. A sequence that has begun is waited for: lines can be slow."""
        if self._rest != "\x1b":
            return []
        self._rest = ""
        return ["esc"]


def _key(char: str) -> list[str]:
    if char in _NAMED:
        return [_NAMED[char]]
    return [char] if char.isprintable() else []


def _names_of(found: re.Match[str]) -> list[str]:
    numbers, final, other = found.groups()
    name = _NUMBER.get(numbers.partition(";")[0]) if final == "~" else _FINAL.get(final or other)
    return [name] if name else []
