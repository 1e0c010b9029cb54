"""System prompt: what the model is told besides the conversation, in one order, every time.

    the chat: its key, and what the agent says of it        stays the same for the whole chat
    profile/Primary.md, profile/other.md                    of the agent, if they are there
    memory/Primary.md                                       of the chat, if it is there
    the agent's instructions, the skills there are, those in use

It is never stored as history. What changes with every run (when it is, which run) is not here, where it would spoil the
provider's cache of everything after it, but before the question: see ``run``.
"""

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chatfold.agent.chat import Chat
from chatfold.eventlog import Json, SkillActivated
from chatfold.eventlog.keys import folder_name
from chatfold.projections import skills
from chatfold.projections.text import one_line

if TYPE_CHECKING:
    from chatfold.agent.agent import Agent

_LINE = 1000


async def system_text(agent: "Agent", chat: Chat) -> str:
    """What this agent's model is told before the conversation of this chat."""
    about = agent.about(chat.key) if agent.about else {}
    parts = (
        _runtime(chat.key, await about if isinstance(about, Awaitable) else about),
        *await _files(chat.key, agent.folder),
        agent.instructions,
        *(files.describe() for files in agent.skills),
        *await _in_use(chat),
    )
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _runtime(key: str, about: Mapping[str, Json]) -> str:
    """A line each: names come from users, and one of several lines could look like an instruction."""
    told = {"chatKey": key, **about}
    return "\n".join(
        f"{one_line(name, _LINE)}: {one_line(str(value), _LINE)}" for name, value in told.items()
    )


async def _files(key: str, folder: Path | None) -> list[str]:
    import aiofiles  # noqa: PLC0415 (only for agents that have such files)

    if folder is None:
        return []
    found = []
    for path in (
        folder / "profile" / "Primary.md",
        folder / "profile" / "other.md",
        folder / "chat" / folder_name(key) / "memory" / "Primary.md",
    ):
        try:
            async with aiofiles.open(path, encoding="utf-8-sig", errors="replace") as file:
                found.append(await file.read())
        except OSError:  # not there, or not for us: each of them is optional
            continue
    return found


async def _in_use(chat: Chat) -> list[str]:
    """The texts of the skills that were activated, as they were then."""
    wanted = sorted(skill.seq for skill in chat[skills].active.values())
    entries = await chat.read(tuple((seq, seq) for seq in wanted))
    return [
        f"Skill {entry.event.name}:\n{entry.event.text}"
        for entry in entries
        if isinstance(entry.event, SkillActivated) and entry.event.text
    ]
