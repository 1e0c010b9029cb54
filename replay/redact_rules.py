"""What is to be left out of an export: rules that find it in a text.

    secrets          what looks like a password or a key, by ``agent.masking.masked``
    emails, phones   addresses; numbers with a country's code, or written as 555-123-4567
    paths            the NAME in /home/NAME, /Users/NAME and C:\\Users\\NAME
    text:LITERAL     this very text, case and all, also where it is escaped as in JSON
    re:PATTERN       what a Python regular expression matches, all of it
    @FILE            one rule a line; empty lines and lines that begin with # are passed over

In whatever order they are given, literals come last. What stands for a literal begins and ends with what is in
none of them, so that nothing brings one back. Rules see one string at a time: what is encoded (base64, compressed) they do not see.

A pattern is tried on texts of any length, and Python cannot stop it half-way: one that repeats what repeats, such as ``(a+)+``, may never
end. ``(a++)+`` says the same and does.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple, Self, TypeAlias

from chatfold.agent.masking import mask
from chatfold.eventlog import ChatfoldError

Replace: TypeAlias = Callable[[str], tuple[str, int]]
"""The text -> the text without what the rule finds, and how often it was there."""


class BadRule(ChatfoldError, ValueError):
    next_step = "Rules are: secrets, emails, phones, paths, text:LITERAL, re:PATTERN, @FILE"


class Rule(NamedTuple):
    label: str  # never says what is looked for: it is written into the export
    replace: Replace
    numbers: bool = False  # is a number looked at, too?


class Rules:
    """``Rules.parse(["secrets", "text:ACME"])``; false if there are none."""

    def __init__(self, rules: Iterable[Rule], mask: str, letters: str) -> None:
        self.rules = tuple(rules)
        self.mask = mask
        self._letters = letters

    @classmethod
    def parse(cls, given: Iterable[str]) -> Self:
        """Reads the files among them. Raises ``BadRule``, which names the rule."""
        asked = list(dict.fromkeys(_with_files(given)))
        literals = [rule.removeprefix("text:") for rule in asked if rule.startswith("text:")]
        used = set("".join(literals))
        mask = next(
            one
            for one in _masks()
            if not used & {one[0], one[-1]} and not any(text in one for text in literals if text)
        )
        letters = "".join(char for char in _LETTERS if char not in used)[:26]
        named = [_rule_of(rule, mask) for rule in asked if not rule.startswith(("text:", "re:"))]
        patterns = [rule.removeprefix("re:") for rule in asked if rule.startswith("re:")]
        by_pattern = [
            Rule(f"re {at}", _by_pattern(one, mask), numbers=True) for at, one in enumerate(patterns, 1)
        ]
        by_text = [
            Rule(f"text {at}", _literal(one, mask), numbers=True) for at, one in enumerate(literals, 1)
        ]
        return cls([*named, *by_pattern, *by_text], mask, letters)

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def labels(self) -> list[str]:
        return [rule.label for rule in self.rules]

    def apply(
        self, text: str, found: dict[str, int], *, number: bool = False, without: Container[str] = ()
    ) -> str:
        """The text after all rules. ``found``: how often each rule was needed so far; ``without``: rules that are not."""
        for label, replace, numbers in self.rules:
            if (numbers or not number) and label not in without:
                text, count = replace(text)
                if count:
                    found[label] = found.get(label, 0) + count
        return text

    def name(self, number: int) -> str:
        """Something to tell one name that was masked from the others."""
        letters = ""
        while number:
            number, digit = divmod(number - 1, len(self._letters))
            letters = self._letters[digit] + letters
        return f"{self.mask}{letters}"


def _with_files(given: Iterable[str]) -> Iterator[str]:
    for rule in given:
        if not rule.startswith("@"):
            yield rule
            continue
        try:
            lines = Path(rule[1:]).read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            raise BadRule("a file of rules that is not UTF-8", path=rule[1:]) from None
        for line in lines:
            if line.startswith("@"):
                raise BadRule(f"a file of rules within another: {line!r}", path=rule[1:])
            if line.strip() and not line.startswith("#"):
                yield line


_LETTERS = ascii_uppercase + ascii_lowercase + digits + "▪"  # the last, if literals use all others


def _masks() -> Iterator[str]:
    yield from ("[redacted]", "█████", "•••••")
    yield from (chr(code) * 5 for code in range(0x2580, 0x110000) if not 0xD800 <= code < 0xE000)


# --- the rules with a name -------------------------------------------------------------------------------

# No text makes these slow: each begins where nothing of its kind is before it, or with something fixed.
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]++)++")
_PHONE = re.compile(
    r"(?<![\w+])\+\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)|(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
)
_HOME = re.compile(
    r"""((?:/home|/Users)/|[A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/))(?!\[redacted|Public\b|Shared\b)"""
    r"""(?:[^/\\"'<>:|*?\s]{1,100}(?:\ [^/\\"'<>:|*?\s]{1,100}){1,4}(?=\\)|[^/\\"'<>:|*?\s]++)"""
)


def _rule_of(rule: str, mask: str) -> Rule:
    match rule:
        case "secrets":
            return Rule(rule, _mask_secrets)
        case "emails":
            return Rule(rule, _replacing(_EMAIL, mask))
        case "phones":
            return Rule(rule, _replacing(_PHONE, mask))
        case "paths":
            return Rule(rule, lambda text: _HOME.subn(lambda found: found[1] + mask, text))
    raise BadRule(f"no such rule: {rule!r}")


def _replacing(pattern: re.Pattern[str], mask: str) -> Replace:
    return lambda text: pattern.subn(mask, text)


_HINTS = tuple(
    """
    pass pwd secret token credential key authorization cookie bearer -----begin :// curl wget mysql mariadb redis-cli docker
    eyj sk- k_live_ k_test_ gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- xox dop_v1_ shpat_ aiza ya29. pypi- hf_ npm_ sg. akia asia
    """.split()  # noqa: SIM905
)
"""Without any of these, ``mask`` finds nothing. Looking for them takes a fiftieth of the time."""


def may_hold_secrets(text: str) -> bool:
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def _mask_secrets(text: str) -> tuple[str, int]:
    if not may_hold_secrets(text):
        return text, 0
    shown = mask(text)
    return shown, 0 if shown == text else max(1, shown.count("•••") - text.count("•••"))


@lru_cache(4096)
def names_a_secret(key: str) -> bool:
    """Would what stands after this name be masked? In JSON it is a string of its own."""
    return len(key) <= 200 and "•" in mask(f"{key}:x9")


# --- the rules with a text -------------------------------------------------------------------------------


def _literal(literal: str, mask: str) -> Replace:
    if not literal:
        raise BadRule("text: without a text")
    # Only from the first of many backslashes on: from each of them it would take time in the square of their number.
    starts = rf"(?:(?<!\\)(?=\\)|(?!\\)){_escapes(literal[0], '')}"
    escaped = re.compile(starts + "".join(map(_escapes, literal[1:], literal)))

    def replace(text: str) -> tuple[str, int]:
        count = 0
        if "\\" in text:
            text, count = escaped.subn(lambda _: mask, text)
        plain = text.count(literal)
        return (text.replace(literal, mask) if plain else text), count + plain

    return replace


def _escapes(char: str, before: str) -> str:
    """The character, or what JSON may write for it, within JSON within JSON, too."""
    some = r"\\*+" if before == "\\" else r"\\++"  # it has taken all that there are
    units = char.encode("utf-16-be", "surrogatepass").hex()
    hexed = r"\\++u".join(f"(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    short = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}.get(char)
    plain = some if char == "\\" else rf"\\*+{re.escape(char)}" if char in "\"'/" else re.escape(char)
    return f"(?:{some}u{hexed}|{plain})" if short is None else f"(?:{some}u{hexed}|{some}{short}|{plain})"


def _by_pattern(pattern: str, mask: str) -> Replace:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadRule(f"not a regular expression: {pattern!r}: {error}") from None
    if compiled.search(""):
        raise BadRule(f"a pattern that matches even the empty text: {pattern!r}")

    def replace(text: str) -> tuple[str, int]:
        count = 0

        def masking(found: re.Match[str]) -> str:
            nonlocal count
            count += bool(found[0])
            return mask if found[0] else ""

        return compiled.sub(masking, text), count

    return replace
