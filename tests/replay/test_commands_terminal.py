"""The command on a real terminal: columns that fit, colour where it is wanted, a pager that may be left at any time."""

import asyncio
import re
import sys
from pathlib import Path
from shutil import which

import pytest

from chatfold.replay.terminal import width
from tests.replay.test_commands_golden import COMMANDS
from tests.support.debugger.commanded import SGR, Shown, on_terminal, process, several_on_terminal
from tests.support.debugger.long_chats import long_history, recorded
from tests.support.debugger.scripted import CHAT, FORK, scripted

LISTS = [name for name in COMMANDS if name.split("-")[0] in ("ls", "log", "tree", "search")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("terminal") / "store"
    asyncio.run(scripted(root))
    asyncio.run(recorded(root, "long", long_history(3000)))
    return root


@pytest.mark.campaign
@pytest.mark.parametrize("columns", [200, 80, 40, 20])
def test_lists_fit_the_width(columns: int, store: Path) -> None:
    shown = several_on_terminal([COMMANDS[name] for name in LISTS], store=store, columns=columns)
    assert len(shown) == len(LISTS)
    for one in shown:
        assert one.code == 0
        assert max(width(line) for line in one.plain.split("\n")) <= columns


def test_wide_characters_are_counted_as_two_cells(store: Path) -> None:
    [shown] = several_on_terminal([["ls", "-q", "lexer", "-n", "0"]], store=store)
    [wide] = several_on_terminal([["ls", "-q", "日本語"]], store=store)
    starts = {width(line[: line.index(" turn")]) for line in (*shown.plain.splitlines(), wide.plain)}
    assert len({start - (start == max(starts)) for start in starts}) == 1  # "turn" and "turns"


@pytest.mark.parametrize(
    ("more", "args", "is_coloured"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({"NO_COLOR": "", "TERM": "xterm"}, [], True),
        ({"TERM": "dumb"}, [], False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "0"}, [], False),
        ({}, ["--color", "never"], False),
    ],
)
def test_colour_is_there_if_it_is_wanted(
    more: dict[str, str], args: list[str], is_coloured: bool, store: Path
) -> None:
    [shown] = several_on_terminal([["log", CHAT, *args]], store=store, more=more)
    assert (SGR.search(shown.text) is not None) == is_coloured
    assert "▸ user" in shown.plain  # nothing is told by colour alone
    assert "✗ result" in shown.plain


def test_a_pipe_has_colour_only_if_it_is_forced(store: Path) -> None:
    plain = process("log", CHAT, store=store)
    assert "\x1b" not in plain.stdout
    assert "\x1b" not in process("log", CHAT, store=store, NO_COLOR="1", FORCE_COLOR="1").stdout
    forced = process("diff", f"{CHAT}@c1^..c1", store=store, FORCE_COLOR="1").stdout
    assert "\x1b[31m-\x1b[0m" in forced
    assert SGR.sub("", forced) == process("diff", f"{CHAT}@c1^..c1", store=store).stdout
    assert "\x1b" not in process("log", CHAT, "--json", "--color", "always", store=store).stdout


# --- the pager -------------------------------------------------------------------------------------------

MARKING = f"{sys.executable} -c \"import sys; [print('PAGED', line, end='') for line in sys.stdin]\""


def test_the_users_pager_is_used(store: Path) -> None:
    ours = on_terminal("log", CHAT, store=store, more={"CHATFOLD_PAGER": MARKING, "PAGER": "cat"})
    theirs = on_terminal("log", CHAT, store=store, more={"PAGER": MARKING})
    assert ours == theirs
    assert ours.code == 0
    assert ours.text.count("PAGED") == 34


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("args", "more"),
    [
        (["--no-pager"], {"PAGER": MARKING}),
        (["--raw"], {"PAGER": MARKING}),
        (["--json"], {"PAGER": MARKING}),
        ([], {"PAGER": MARKING, "CHATFOLD_PAGER": ""}),
        ([], {"PAGER": "not-a-program-that-there-is"}),
        ([], {"PAGER": "cat 'unclosed"}),
    ],
    ids=str,
)
def test_where_there_is_no_pager_everything_is_shown(
    args: list[str], more: dict[str, str], store: Path
) -> None:
    shown = on_terminal("log", CHAT, *args, store=store, more=more)
    assert shown.code == 0
    assert "PAGED" not in shown.text
    assert len(shown.plain.splitlines()) == 34


def test_a_pager_that_is_left_early_is_no_reason_to_complain(store: Path) -> None:
    shown = on_terminal("log", "long", store=store, more={"PAGER": "head -1"})
    assert shown.code == 0
    assert len(shown.plain.splitlines()) == 1


@pytest.mark.skipif(which("less") is None, reason="there is no less")
def test_less_can_be_left_with_q(store: Path) -> None:
    shown = on_terminal("log", "long", store=store, keys="q")
    assert shown.code == 0
    assert "Traceback" not in shown.text
    assert "2999" not in shown.text


def test_short_output_does_not_wait_in_less(store: Path) -> None:
    shown = on_terminal("tree", FORK, store=store)
    assert shown.code == 0
    assert FORK in shown.text


# --- and no terminal -------------------------------------------------------------------------------------


def test_head_is_quiet(store: Path) -> None:
    shell = f'"{sys.executable}" -W error -m chatfold log long --store "{store}" | head -1'
    shown = ended(shell)
    assert shown.text.startswith("1\t")
    assert shown.text.count("\n") == 1


def test_chatfold_itself_ends_with_1_if_nobody_reads_on(store: Path) -> None:
    shell = (
        f'("{sys.executable}" -W error -m chatfold log long --store "{store}"; echo "code $?" >&2) | head -1'
    )
    assert ended(shell).text.splitlines()[-1] == "code 1"


def test_head_is_quiet_also_if_what_is_followed_says_nothing_more(store: Path) -> None:
    shell = f'("{sys.executable}" -W error -m chatfold log {CHAT} -f --store "{store}"; echo "code $?" >&2) | head -1'
    assert ended(shell).text.splitlines()[-1] == "code 1"


def test_ctrl_c_on_the_terminal_ends_with_130(store: Path) -> None:
    shown = on_terminal("log", CHAT, "-f", store=store, keys="\x03")
    assert shown.code == 130
    assert "Traceback" not in shown.text


def ended(shell: str) -> Shown:
    import subprocess

    from tests.support.debugger.commanded import TOP, environment

    done = subprocess.run(
        ["sh", "-c", shell],
        cwd=TOP,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return Shown(done.stdout, done.returncode)


def test_alone_on_a_terminal_it_lists_the_chats_and_says_what_next(store: Path) -> None:
    shown = on_terminal(store=store, more={"CHATFOLD_PAGER": ""})
    assert shown.code == 0
    assert re.search(rf"^{CHAT} ", shown.plain, re.MULTILINE)
    assert "chatfold step last" in shown.plain.splitlines()[-1]
