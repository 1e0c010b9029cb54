"""Skills: folders with a ``SKILL.md``, of which the model is told the names, and loads what it needs.

    skills/pdf/SKILL.md         ---
                                name: pdf
                                description: Fill in forms, split and join pages.
                                ---
                                To fill in a form, first …

    Agent(model, tools=[SkillFiles("./skills")])

Between the two lines of dashes stands ``name: value`` a line, with or without quotes; lines that are indented go on with the
value before them. That is all of YAML there is here. The rest of the file is the skill's text.

A skill that is loaded is an event with its text as it was then: it stays in use after a restart, in a fork, after a rewind to
a point where it was; and what the model was told can be made again when the file has changed. The same text is not loaded twice.

What a model says is never part of a path: a name is looked for among those of the files there are. A folder whose file cannot
be used is passed over, and ``skills_list`` says why.
"""

import asyncio
import stat
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from xxhash import xxh3_128_hexdigest

from chatfold.agent.moment import Moment
from chatfold.agent.progress import beginning
from chatfold.agent.run_context import current_run
from chatfold.agent.tools import Tool, tool
from chatfold.eventlog import Event, SkillActivated
from chatfold.projections import skills
from chatfold.projections.text import one_line

MOST_BYTES = 256 * 1024
"""Of a SKILL.md: it becomes part of the prompt."""

_TOLD = 8_000  # characters of the section that the model is always told
_NAME, _DESCRIPTION = 64, 1_024
_FENCE = "---"


class Skill(msgspec.Struct, frozen=True):
    name: str
    description: str
    text: str
    folder: Path

    @property
    def fingerprint(self) -> str:
        return xxh3_128_hexdigest(self.text.encode("utf-8", "surrogatepass"))


class Unusable(ValueError):
    """What is wrong with a SKILL.md."""


class SkillFiles:
    """The skills of a folder, as tools of an agent: ``Agent(model, tools=[SkillFiles("./skills")])``.

    Read when it is made, and again with ``read``. The tools do so; what the model is told changes then, and not before."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.skills: dict[str, Skill] = {}  # by name, in the order of their folders
        self.unusable: dict[str, str] = {}  # why, by folder
        self.read()

    def __repr__(self) -> str:
        return f"SkillFiles({str(self.path)!r}, {len(self.skills)} skills)"

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """``skills_list`` and ``skills_load``."""
        return _tools(self)

    def read(self) -> None:
        """Looks which skills there are now: ``skills``, and ``unusable`` with the reasons."""
        found: dict[str, Skill] = {}
        unusable: dict[str, str] = {}
        for folder in _folders(self.path):
            try:
                skill = read_skill(folder)
            except (FileNotFoundError, NotADirectoryError):  # no skill
                continue
            except (OSError, Unusable) as problem:
                unusable[folder.name] = getattr(problem, "strerror", "") or str(problem)
                continue
            if (first := found.setdefault(skill.name, skill)) is not skill:
                unusable[folder.name] = f"{first.folder.name!r} has the same name: {skill.name}"
        self.skills, self.unusable = found, unusable

    def describe(self) -> str:
        """For the system prompt: which skills there are. Nothing if there are none."""
        lines = [f"- {skill.name}: {one_line(skill.description, 300)}" for skill in self.skills.values()]
        kept = list(_fitting(lines, _TOLD))
        if len(kept) < len(lines):
            kept.append(f"- and {len(lines) - len(kept)} more: skills_list tells them")
        return (
            "\n".join(["Skills that skills_load(name) brings in when they are needed:", *kept])
            if kept
            else ""
        )


def _tools(files: SkillFiles) -> tuple[Tool, ...]:
    @tool(after_crash="again")
    async def skills_list() -> dict[str, Any]:
        """Which skills there are, what for, and which of them are in use."""
        await asyncio.to_thread(files.read)
        active = (await current_run().chat.now())[skills].active
        rows = [
            {"name": skill.name, "description": skill.description, "active": skill.name in active}
            for skill in files.skills.values()
        ]
        unusable = [{"folder": name, "problem": why} for name, why in files.unusable.items()]
        return {"success": True, "skills": rows, "unusable": unusable}

    @tool(after_crash="again")
    async def skills_load(name: Annotated[str, Meta(description="as skills_list says it")]) -> dict[str, Any]:
        """Brings a skill into use: its text is part of your instructions from the next step on."""
        await asyncio.to_thread(files.read)
        skill = files.skills.get(name)
        if skill is None:
            known = beginning(", ".join(files.skills), 1000) or "none"
            return {
                "success": False,
                "error": f"there is no skill {beginning(name, 100)!r}; there are: {known}",
            }
        new = await _activate(skill)
        return {"success": True, "name": name, "folder": str(skill.folder), "already_in_use": not new}

    return skills_list, skills_load


async def _activate(skill: Skill) -> bool:
    """Is it new? Decided about the chat as it is at that moment: tools run side by side."""

    def once(now: Moment) -> Iterable[Event]:
        used = now[skills].active.get(skill.name)
        is_known = used is not None and used.fingerprint == skill.fingerprint
        return () if is_known else (SkillActivated(skill.name, skill.fingerprint, skill.text),)

    return bool(await current_run().chat.append_if(once, run=current_run().run))


def _fitting(lines: Iterable[str], most: int) -> Iterator[str]:
    for line in lines:
        most -= len(line) + 1
        if most < 0:
            return
        yield line


# --- files -----------------------------------------------------------------------------------------------


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def read_skill(folder: Path) -> Skill:
    """Raises ``Unusable``, or OSError."""
    path = folder / "SKILL.md"
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        raise Unusable("SKILL.md is not a file")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Unusable(f"SKILL.md is larger than {MOST_BYTES} bytes")
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable("SKILL.md is not UTF-8") from None
    head, text = _part(source.replace("\r\n", "\n").replace("\r", "\n"))
    fields = _fields(head)
    name, description = (one_line(fields.get(field, ""), _DESCRIPTION) for field in ("name", "description"))
    if not 0 < len(name) <= _NAME:
        raise Unusable(f"its name is missing, or longer than {_NAME} characters")
    if not description:
        raise Unusable("its description is missing")
    if not text:
        raise Unusable("there is no text after the front matter")
    return Skill(name, description, text, folder)


def _part(source: str) -> tuple[list[str], str]:
    """The lines between the dashes, and the text after them."""
    lines = source.split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(fences) < 2 or fences[0] != 0:
        raise Unusable("SKILL.md does not begin with name and description between two lines of ---")
    return lines[1 : fences[1]], "\n".join(lines[fences[1] + 1 :]).strip()


def _fields(lines: Iterable[str]) -> dict[str, str]:
    fields: dict[str, list[str]] = {}
    last: list[str] = []
    for line in lines:
        if line[:1].isspace():
            last.append(line.strip())
        elif not line.startswith("#"):
            name, colon, value = line.partition(":")
            last = []  # what goes on with a line that is none of ours is nobody's
            if colon:
                fields[name.strip().lower()] = last = [value.strip()]
    return {name: _value(values) for name, values in fields.items()}


def _value(lines: list[str]) -> str:
    if lines[0] in (">", ">-", ">+", "|", "|-", "|+"):
        lines = lines[1:]
    value = " ".join(filter(None, lines))
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
