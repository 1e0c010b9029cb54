"""What is said in the chats that are measured: agent-like turns, made from a seed, the same on every machine.

A turn is a user's message (50 to 800 characters), up to six tool calls with their results, and the assistant's
message (200 to 3,000 characters). Some of it is CJK, some is code and logs. A tool's result has a lognormal size
(median 1.5 kB, sigma 1.25, from 40 B to 200 kB), and about 15 % of the results repeat an earlier one of the same
chat, however long ago, verbatim. That makes about 1.8 kB of JSON a message.

Messages are dicts in the shape of OpenAI's Chat Completions, since every peer knows that one; ``workload`` has the same as
events. Nothing of chatfold is imported here: the process of a peer is what that of an author without it would be.

Texts are slices of a few pools made once, so a million messages take seconds; a slice starts and ends anywhere, so
two of them are hardly ever equal unless one is meant to repeat the other.
"""

import math
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec

Message = dict[str, Any]

REPEATED = 0.15
WINDOW = 50  # messages for the next call of the model, a summary the first of them
SUMMARY = "Summary of the earlier conversation:\n"
"""How a summary begins, in the prompts that chatfold makes, too: that is how the two are found to be the same."""

_CHAPTER = 200  # messages between two summaries
_POOL = 1 << 18  # characters; longer than the longest result
_CJK_BYTES = 3  # of a character in UTF-8
_TOOLS = ("read_file", "search", "run_tests", "edit_file", "http_get", "query")


def conversation(seed: int) -> Iterator[list[Message]]:
    """The endless chat of this seed, turn by turn."""
    random = Random(seed)
    results: list[_Slice] = []
    number = 0
    while True:
        number += 1
        turn = [_message(random, "user", 50, 800)]
        for index in range(random.randint(0, 6)):
            id = f"call_{number}_{index}"  # noqa: A001
            function = {"name": random.choice(_TOOLS), "arguments": _json(_arguments(random))}
            call = {"id": id, "type": "function", "function": function}
            turn.append({"role": "assistant", "tool_calls": [call]})
            turn.append({"role": "tool", "tool_call_id": id, "content": _result(random, results).text})
        turn.append(_message(random, "assistant", 200, 3_000))
        yield turn


def history(seed: int, count: int) -> Iterator[list[Message]]:
    """A chat of exactly ``count`` messages, at least 100, as an agent leaves it that is about to call its model.

    Every few hundred messages there is a summary, which stands for all before it. The last ``WINDOW`` messages are such
    a summary, some turns, and a question.
    """
    said, summaries = conversation(seed), Random(seed)
    since = 0
    left = count - WINDOW
    while left:
        if since >= _CHAPTER or left == 1:
            turn, since = [_summary(summaries)], 0
        else:
            turn = _shortened(next(said), left)
        yield turn
        since += len(turn)
        left -= len(turn)
    yield [_summary(summaries)]
    left = WINDOW - 2
    while left:
        turn = _shortened(next(said), left)
        yield turn
        left -= len(turn)
    yield next(said)[:1]


def short(seed: int, count: int) -> Iterator[list[Message]]:
    """A chat of ``count`` messages, an even number, without summaries."""
    said = conversation(seed)
    while count:
        turn = _shortened(next(said), count)
        yield turn
        count -= len(turn)


def is_summary(message: Message) -> bool:
    return str(message.get("content", "")).startswith(SUMMARY)


def _shortened(turn: list[Message], most: int) -> list[Message]:
    """With no more messages than that: tool calls are left out together with their results."""
    keep = min(len(turn), most - most % 2)
    return [*turn[: keep - 1], turn[-1]]


def _summary(random: Random) -> Message:
    return {"role": "assistant", "content": SUMMARY + _slice(random, "prose", 3_000).text.strip()}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class _Slice(NamedTuple):
    """A text, told by where it is: all results of a long chat are remembered, their characters are not."""

    pool: str
    start: int
    size: int

    @property
    def text(self) -> str:
        return _pool(self.pool)[self.start : self.start + self.size]


def _message(random: Random, role: str, least: int, most: int) -> Message:
    pool = random.choices(("prose", "cjk", "code"), (55, 30, 15))[0]
    size = random.randint(least, most)
    return {"role": role, "content": _slice(random, pool, size).text}


def _result(random: Random, earlier: list[_Slice]) -> _Slice:
    if earlier and random.random() < REPEATED:
        return random.choice(earlier)
    pool = random.choices(("log", "code", "prose", "cjk"), (40, 35, 15, 10))[0]
    size = min(max(random.lognormvariate(math.log(1_500), 1.25), 40), 200_000)
    new = _slice(random, pool, int(size) // (_CJK_BYTES if pool == "cjk" else 1))
    earlier.append(new)
    return new


def _slice(random: Random, pool: str, size: int) -> _Slice:
    return _Slice(pool, int(random.random() * (_POOL - size)), size)


def _arguments(random: Random) -> dict[str, object]:
    return {
        "path": f"src/module_{random.randint(1, 400)}/part_{random.randint(1, 40)}.py",
        "pattern": _slice(random, "prose", random.randint(4, 60)).text,
        "limit": random.randint(1, 500),
        "recursive": random.random() < 0.5,
    }


# --- pools -----------------------------------------------------------------------------------------------


@cache
def _pool(name: str) -> str:
    random = Random(name)
    line = {"prose": _prose, "cjk": _cjk, "code": _code, "log": _log}[name]
    lines: list[str] = []
    length = 0
    while length < _POOL:
        lines.append(line(random))
        length += len(lines[-1])
    return "".join(lines)[:_POOL]


@cache
def _words() -> list[str]:
    random = Random("words")
    syllables = [a + b for a in "bcdfglmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]
    return ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(2_000)]


def _prose(random: Random) -> str:
    return " ".join(random.choices(_words(), k=random.randint(5, 18))).capitalize() + random.choice(
        (". ", ". ", "? ", ".\n\n", ': "so it is". ')
    )


def _cjk(random: Random) -> str:
    return "".join(chr(random.randint(0x4E00, 0x9FA0)) for _ in range(random.randint(8, 30))) + random.choice(
        ("。", ",", "。\n", "?")
    )


def _code(random: Random) -> str:
    name, other, third = random.choices(_words(), k=3)
    return random.choice(
        (
            f"def {name}({other}: int, {third}: str) -> None:\n",
            f'    if {name} != "{other}":\n        return {third}[{random.randint(0, 99)}]\n',
            f"    {name} = {other}.{third}({random.random():.3f})\n",
            f'    raise ValueError(f"{name} {{{other}}}: {third}\\n")\n\n',
        )
    )


def _log(random: Random) -> str:
    level = random.choice(("INFO", "DEBUG", "WARNING", "ERROR"))
    clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.random() * 60:09.6f}"
    words = " ".join(random.choices(_words(), k=random.randint(2, 8)))
    return f'2025-02-05T{clock}Z {level} [worker-{random.randint(1, 32)}] {words} id="{random.getrandbits(64):016x}"\n'
