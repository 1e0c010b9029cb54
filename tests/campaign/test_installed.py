"""Installed from its wheel next to projects that have an ``agent``, a ``replay`` … of their own: neither disturbs the other."""

import base64
import csv
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.support.workshop import TOP, Workshop, ran, succeeded

IMPORT = "from chatfold import Agent, ScriptedModel, Store"  # how users get at it
ROOMS = ("agent", "eventlog", "projections", "replay")
ELSEWHERE = (*ROOMS, "tests", "benchmarks", "examples")

# Its model is a class of the user's own: a replay must know it again, whatever the module is called then.
AGENT = f"""
{IMPORT}

class Mine(ScriptedModel):
    def payload(self, request):
        return super().payload(request) | {{"mine": True}}

def build(store):
    return Agent(store=store, model=Mine(["hello"]), instructions="Be brief.")
"""
RECORD = """
import asyncio

async def record():
    async with Store("chats") as store:
        await build(store).run("hi", chat="chat")

asyncio.run(record())
"""
MINE = "MINE = 'of the user'\n"
FOUND = f"""
from importlib.util import find_spec
print([name for name in {ELSEWHERE} if find_spec(name)])
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    root.mkdir(exist_ok=True)
    return Workshop(root)


@pytest.fixture(scope="module")
def bin(shop: Workshop) -> Path:  # noqa: A001 (that is its name)
    return shop.venv("venv", shop.wheel())


@pytest.fixture(scope="module")
def recorded(shop: Workshop, bin: Path) -> Path:
    """A folder with a store, ``chats``, recorded by a program that is run."""

    def make(folder: Path) -> None:
        (folder / "bot.py").write_text(AGENT + RECORD)
        succeeded(ran(bin / "python", "bot.py", cwd=folder))

    return shop.once("recorded", make)


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


# --- what is installed -----------------------------------------------------------------------------------


def test_the_wheel_holds_one_package(shop: Workshop) -> None:
    with zipfile.ZipFile(shop.wheel()) as wheel:
        names = wheel.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert [top for top in tops if not top.endswith(".dist-info")] == ["chatfold"]
    assert len(tops) == 2
    assert {f"chatfold/{room}/__init__.py" for room in (*ROOMS, "testing")} | {
        "chatfold/py.typed",
        "chatfold/replay/web/static/start.js",
    } <= set(names)


def test_the_installed_package_brings_the_suite_for_storages(bin: Path, tmp_path: Path) -> None:
    """All but hypothesis, which the extra ``testing`` asks for."""
    program = "import chatfold.testing.conformance"
    done = ran(bin / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0 or "No module named 'hypothesis'" in done.stderr


def test_the_sdist_builds_the_same_wheel(shop: Workshop, tmp_path: Path) -> None:
    sums = []
    for path in (shop.wheel(), shop.wheel_of_sdist(tmp_path)):
        with zipfile.ZipFile(path) as wheel:
            sums.append({one.filename: one.CRC for one in wheel.infolist() if "RECORD" not in one.filename})
    assert sums[0] == sums[1]


def test_the_installed_package_takes_no_other_name(bin: Path, tmp_path: Path) -> None:
    assert succeeded(ran(bin / "python", "-c", FOUND, cwd=tmp_path)) == "[]\n"


def test_an_editable_install_takes_no_other_name(shop: Workshop, tmp_path: Path) -> None:
    python = shop.venv("editable", "-e", shop.checkout("source of editable")) / "python"
    assert succeeded(ran(python, "-c", FOUND, cwd=tmp_path)) == "[]\n"
    assert succeeded(ran(python, "-c", f"{IMPORT}; print(Store.__module__)", cwd=tmp_path))


def test_the_module_is_the_command(bin: Path, tmp_path: Path) -> None:
    told = succeeded(ran(bin / "python", "-m", "chatfold", "--version", cwd=tmp_path))
    assert told.startswith("chatfold, version ")
    assert succeeded(ran(bin / "chatfold", "--version", cwd=tmp_path)) == told


# --- next to a user's own modules ------------------------------------------------------------------------


@pytest.mark.parametrize("is_first", [True, False], ids=["theirs first", "ours first"])
@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("agent.py", "agent"),
        ("agent/__init__.py", "agent"),
        ("replay.py", "replay"),
        ("agent/tools.py", "agent.tools"),  # a namespace: an installed package ``agent`` would win
    ],
)
def test_a_project_has_its_own_modules_and_ours(
    path: str, module: str, is_first: bool, bin: Path, tmp_path: Path
) -> None:
    write(tmp_path, path, MINE)
    theirs = f"import {module} as mine\nassert mine.MINE == 'of the user'\n"
    write(tmp_path, "main.py", theirs + AGENT + RECORD if is_first else AGENT + theirs + RECORD)
    succeeded(ran(bin / "python", "main.py", cwd=tmp_path))
    assert "chat" in succeeded(ran(bin / "chatfold", "ls", cwd=tmp_path))


def test_a_module_on_the_path_does_not_reach_the_command(bin: Path, tmp_path: Path) -> None:
    for room in ROOMS:
        write(tmp_path, f"{room}.py", "raise RuntimeError('of the user')")
    here = {"PYTHONPATH": "."}
    succeeded(ran(bin / "chatfold", "demo", "chats", cwd=tmp_path, more=here))
    assert "lexer-bug" in succeeded(ran(bin / "chatfold", "ls", cwd=tmp_path, more=here))


@pytest.mark.parametrize(
    ("path", "agent"),
    [
        ("agent.py", "agent:build"),
        ("agent.py", "agent.py:build"),
        ("agent/bot.py", "agent.bot:build"),
        ("agent/bot.py", "agent/bot.py:build"),
    ],
)
def test_the_agent_is_the_users(path: str, agent: str, bin: Path, recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded / "chats", tmp_path / "chats")
    write(tmp_path, path, AGENT)
    told = succeeded(ran(bin / "chatfold", "replay", "chat", "--agent", agent, cwd=tmp_path))
    assert told.startswith("ok chat: ")
    assert "1 run rehearsed" in told
    write(tmp_path, path, AGENT.replace("brief", "verbose"))
    assert ran(bin / "chatfold", "replay", "chat", "--agent", agent, cwd=tmp_path).returncode == 1
    write(tmp_path, path, "raise RuntimeError('boom')")
    failed = ran(bin / "chatfold", "replay", "chat", "--agent", agent, cwd=tmp_path)
    assert (failed.returncode, failed.stderr.count("\n")) == (7, 1)
    assert f"RuntimeError: boom, in {tmp_path / path}:1" in failed.stderr


# --- next to a package that was installed later ----------------------------------------------------------


def record_of(python: Path, cwd: Path) -> str:
    """The RECORD of what is installed, after every file that it names was compared with it."""
    program = "from importlib.metadata import distribution as d; print(d('chatfold').locate_file(''))"
    site = Path(succeeded(ran(python, "-c", program, cwd=cwd)).strip())
    [record] = site.glob("chatfold-*.dist-info/RECORD")
    for path, mark, _ in csv.reader(record.read_text().splitlines()):
        if mark:
            kind, _, digest = mark.partition("=")
            found = hashlib.new(kind, (site / path).read_bytes()).digest()
            assert base64.urlsafe_b64encode(found).decode().rstrip("=") == digest, path
    return record.read_text()


def test_a_package_agent_installed_later_and_taken_away_changes_nothing(
    shop: Workshop, tmp_path: Path
) -> None:
    bin = shop.venv("crowded", shop.wheel())  # noqa: A001
    project, here = tmp_path / "project", tmp_path / "here"
    here.mkdir()
    write(project, "pyproject.toml", "[project]\nname = 'their-bots'\nversion = '1'\n")
    for room in ROOMS:
        write(project, f"src/{room}/__init__.py", MINE)
    write(project, "src/agent/tools.py", MINE)
    before = record_of(bin / "python", here)

    succeeded(shop.pip(bin / "python", "install", "-q", "--no-index", shop.built(project, tmp_path)))
    succeeded(shop.pip(bin / "python", "check"))
    theirs = "".join(f"import {room}\nassert {room}.MINE\n" for room in (*ROOMS, "agent.tools"))
    succeeded(ran(bin / "python", "-c", theirs + AGENT + RECORD, cwd=here))
    assert record_of(bin / "python", here) == before

    succeeded(shop.pip(bin / "python", "uninstall", "-q", "-y", "their-bots"))
    assert succeeded(ran(bin / "python", "-c", FOUND, cwd=here)) == "[]\n"
    assert "chat" in succeeded(ran(bin / "chatfold", "ls", cwd=here))
    assert record_of(bin / "python", here) == before


# --- where there are no links ----------------------------------------------------------------------------


@pytest.mark.skipif(not (TOP / ".git").exists(), reason="no repository to clone")
@pytest.mark.parametrize("way", ["pip install", "import"])
def test_a_clone_without_symbolic_links_says_so(way: str, shop: Workshop, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git = ("git", "clone", "-q", "--depth", "1", "-c", "core.symlinks=false", TOP.as_uri(), clone)
    succeeded(ran(*git, cwd=tmp_path))
    if way == "pip install":
        options = ("--no-deps", "--no-build-isolation", "--target", tmp_path / "installed")
        done = shop.pip(shop.python, "install", *options, clone)
    else:
        done = ran(shop.python, "-c", "import chatfold", cwd=clone)
    assert done.returncode != 0
    assert "symbolic links" in done.stdout + done.stderr
