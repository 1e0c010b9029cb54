"""A chat to look at, recorded by an agent that really runs: two compactions, another context, a recall, errors, a checkpoint, and forks.

python -m tests.replay.web.story FOLDER
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from chatfold import Agent, Chat, ModelReply, ScriptedModel, Store, Tool, ToolCall, tool
from chatfold.agent.compaction import Policy
from chatfold.eventlog import Text
from chatfold.eventlog.files.storage import FileStorage

CHAT = "http-retries"
MODEL = "claude-sonnet-4-5"
_SYSTEM = "You are a careful software engineer. Work in small steps, run the tests after each, and say what you changed. "
_FIRST = (
    "Fixing flaky retry tests of httpkit on branch fix/retries. tests/test_client.py measured the wall clock; it now uses the fake clock "
    "of conftest.py (400 of 400 pass). Backoff in src/backoff.py doubles from 0.1 s with full jitter, five attempts, RetryLimit after the "
    "last; 613 tests pass. CAP = 5.0 is being made a parameter `max_delay` of Retry, to be documented in docs/retries.md and "
    "docs/reference.md. Constraint: vendor files stay as they are."
)
_SECOND = (
    "Retry-After is honoured, as seconds or as a date, and is capped by max_delay. The whole suite was run: 644 of 649 pass. The TLS tests "
    "fail in connect(): it ignores server_hostname. The next step is the handshake in src/transport.py."
)
_TURNS: tuple[tuple[str, tuple[tuple[str, str, int, str], ...], str], ...] = (
    (
        "The retry tests in tests/test_client.py are flaky on CI. Find out why and fix it. You must not touch vendor/.",
        (
            ("I'll look at the layout first.", "list_files", 900, "."),
            ("", "read_file", 5200, "tests/test_client.py"),
            (
                "The delay is compared with the wall clock, which explains it.",
                "grep",
                1200,
                '"time.sleep" src/',
            ),
            ("", "run_tests", -4700, "tests/test_client.py --count 20"),
            ("", "edit_file", 340, "tests/test_client.py"),
            ("", "run_tests", 4300, "tests/test_client.py --count 400"),
        ),
        "They now use the fake clock: 400 of 400 pass, and vendor/ is untouched.",
    ),
    (
        "Good. Now add exponential backoff with jitter, five attempts at most.",
        (
            (
                "Before changing anything I want to know who else calls this.",
                "grep",
                3000,
                '"backoff" src/ tests/',
            ),
            ("", "read_file", 6400, "src/backoff.py"),
            ("", "edit_file", 420, "src/backoff.py"),
            ("", "run_tests", -5100, "tests/"),
            (
                "Two callers pass attempts by position, so the order of the arguments has to stay.",
                "edit_file",
                380,
                "src/backoff.py",
            ),
            ("", "run_tests", 5300, "tests/"),
        ),
        "Backoff doubles from 0.1 s with full jitter, five attempts at most. **613 tests pass.**",
    ),
    (
        "Why 5 s as the cap? Make it a parameter, and document it.",
        (
            ("", "read_file", 8500, "docs/reference.md"),
            (
                "Two callers pass attempts by position, so they stay as they are.",
                "read_file",
                6300,
                "CHANGELOG.md",
            ),
            (
                "That passes alone and fails with the others: it is the order of the tests.",
                "edit_file",
                339,
                "src/backoff.py",
            ),
            ("", "read_file", 6000, "src/settings.py"),
        ),
        "The cap is `Retry(max_delay=5.0)` now, documented in docs/retries.md:\n\n```python\nRetry(max_delay=5.0, attempts=5)\n```",
    ),
    (
        "By the way, the docs build is broken on CI. Look at that in between.",
        (
            ("", "read_file", 3500, "mkdocs.yml"),
            ("", "run_tests", -2800, "mkdocs build --strict"),
            (
                "A link to reference.md#retry was broken by a renamed heading.",
                "edit_file",
                210,
                "docs/retries.md",
            ),
        ),
        "mkdocs build --strict passes again.",
    ),
    (
        "Back to the retries: a server may say Retry-After. Honour it.",
        (
            ("", "grep", 1800, '"Retry-After" src/ vendor/'),
            (
                "The header can be seconds or a date; both are handled in one place.",
                "read_file",
                4500,
                "src/client.py 180:300",
            ),
            ("", "read_file", 3300, "src/errors.py"),
            (
                "Nothing else reads this value; I can make it a parameter.",
                "read_file",
                8400,
                "vendor/urllib3/util/retry.py",
            ),
            ("", "edit_file", 382, "src/client.py"),
            ("", "read_file", 5300, "tests/test_client.py 1:140"),
            ("", "edit_file", 330, "tests/test_client.py"),
            ("", "run_tests", -4900, "tests/test_client.py"),
            ("The failure is in the handshake, not in the pool.", "read_file", 2000, "src/backoff.py"),
            ("", "edit_file", 356, "src/client.py"),
            ("", "run_tests", 3800, "tests/test_client.py"),
        ),
        "Retry-After is honoured, as seconds or as a date, and is capped by max_delay.",
    ),
    (
        "Run the whole suite and fix what breaks.",
        (
            ("", "run_tests", -9000, "tests/ --all"),
            ("", "read_file", 12000, "src/transport.py"),
            ("", "read_file", 9800, "src/pool.py"),
            (
                "That passes alone and fails with the others: the pool is shared.",
                "run_tests",
                -6400,
                "tests/test_tls.py",
            ),
            ("", "read_file", 11000, "src/tls.py"),
            (
                "The TLS tests fail in connect(): it ignores server_hostname.",
                "edit_file",
                330,
                "vendor/urllib3/connection.py",
            ),
            ("I will keep the old name as an alias and note it.", "run_tests", 2700, "tests/test_tls.py"),
            ("", "run_tests", 7700, "tests/ --all"),
        ),
        "All 649 pass. I fixed the pool and vendor/urllib3/connection.py.",
    ),
    (
        "Why did you change vendor/urllib3/connection.py? I told you not to touch vendor/.",
        (
            ("", "search_notes", 783, '"vendor"'),
            ("", "shell", 52, "git checkout vendor/urllib3/connection.py"),
        ),
        "You did, in your first message, and I no longer had it in sight. It is as it was again.",
    ),
)


_WORDS = (
    "connection",
    "retry",
    "attempt",
    "pool",
    "header",
    "client",
    "server",
    "timeout",
    "delay",
    "jitter",
    "socket",
    "response",
)


class _Failed(Exception):
    pass


class _World:
    """What the tools find: texts of so many tokens; a negative number fails."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # of the answers to come
        self._random = random.Random(7)

    def text(self, name: str, what: str, tokens: int) -> str:
        words = _WORDS
        lines = [f"{name} {what}"]
        size = 0
        while size < abs(tokens) * 3:
            one = " ".join(self._random.choices(words, k=9))
            lines.append(f"    {one} = {self._random.randrange(10_000)}")
            size += len(lines[-1])
        return "\n".join(lines)


def _tools(world: _World) -> list[Tool]:
    def answer(name: str, what: str, tokens: int) -> str:
        text = world.text(name, what, tokens)
        if tokens < 0:
            raise _Failed(f"{abs(tokens) % 7 + 1} failed, 157 passed in 41.20s\n{text}")
        return text

    def make(name: str) -> Tool:
        def run(path: str) -> str:
            return answer(name, path, world.sizes.pop(0))

        run.__name__ = name
        run.__doc__ = f"{name}: what it finds."
        return tool(run)

    return [
        make(name)
        for name in ("list_files", "read_file", "grep", "run_tests", "edit_file", "shell", "search_notes")
    ]


def _script(number: int) -> Iterator[ModelReply]:
    _, steps, answer = _TURNS[number]
    sent = 6_000 + 12_000 * number
    for at, (says, name, _, path) in enumerate(steps):
        call = ToolCall(f"call-{number}-{at}", name, {"path": path})
        usage = {
            "input_tokens": sent + 4_000 * at,
            "output_tokens": 150 + 37 * at,
            "cache_read_input_tokens": 3_000 * at,
        }
        yield ModelReply((Text(says),) if says else (), (call,), usage, stop="tool_use")
    yield ModelReply(
        (Text(answer),), usage={"input_tokens": sent + 40_000, "output_tokens": 89}, stop="end_turn"
    )


async def record(folder: Path | str, *, seconds: float = 0.0) -> None:
    """Into a new store there."""
    now = 1_795_010_000_000

    def clock() -> int:
        nonlocal now
        now += 700
        return now

    async with Store(FileStorage(folder, clock=clock, durability="off")) as store:
        world = _World()
        policy = Policy(budget=None)

        async def run(number: int) -> None:
            world.sizes = [tokens for _, _, tokens, _ in _TURNS[number][1]]
            agent = Agent(
                store=store, model=ScriptedModel(_script(number), name=MODEL, delay=seconds), tools=_tools(world), name="coder",
                instructions=_SYSTEM * 12, policy=policy,
            )  # fmt: skip
            await agent.run(_TURNS[number][0], chat=CHAT, id=f"in-{number}")

        chat = await store.chat(CHAT)
        for number in (0, 1, 2):
            await run(number)
        await chat.refresh()
        await chat.compact(Policy(keep=6, budget=None), summarise=lambda _: _FIRST)
        await chat.checkpoint("before-docs")
        await chat.new_context("docs build")
        await run(3)
        await chat.refresh()
        docs = chat.view.seq
        await chat.load_context(context_id="main")
        await chat.recall((await chat.contexts())[0].context_id)
        await run(4)
        await _fork(chat, "http-retries-no-urllib3", "Do not read urllib3 for it.", docs + 40)
        await run(5)
        await chat.refresh()
        await chat.compact(Policy(keep=4, budget=None), trigger="budget", summarise=lambda _: _SECOND)
        await run(6)
        await _fork(chat, "http-retries-what-if", "The suite, by another model.", None)
        small = await store.chat("invoice-tables")
        await small.user("請求書の PDF から表を取り出す")
        await small.assistant("3 ページ目の表は結合セルがあるため、行の見出しを補いました。")


async def _fork(chat: Chat, name: str, said: str, at: int | None) -> None:
    await chat.refresh()
    branch = await chat.fork(name, at=at)
    await branch.user(said)
    await branch.assistant("648 of 649 pass; test_tls is left, its cause is in vendor/.")


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
