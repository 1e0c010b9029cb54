"""Skills in folders: told by name, loaded by the model, kept by the log; what is wrong with one is said, and harms no other."""

import os
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Chat, Store
from chatfold.agent.tools import Tool
from chatfold.agent.tools.skills import MOST_BYTES, SkillFiles, Unusable, read_skill
from chatfold.eventlog import SkillActivated, ToolReturned
from chatfold.projections import skills
from tests.support.agent_runs import events, ran, returned, step
from tests.support.chats import a_chat, a_store  # noqa: F401

PDF = "---\nname: pdf\ndescription: Fill in forms.\n---\n\n# How\n\nFirst, look.\n"


@pytest.fixture(name="folder")
def a_folder(tmp_path: Path) -> Path:
    put(tmp_path, "pdf", PDF)
    put(tmp_path, "docs", PDF.replace("pdf", "docs").replace("Fill in forms", "Write docs"))
    return tmp_path


def put(folder: Path, name: str, text: str | bytes) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())


def tools(folder: Path) -> tuple[Tool, ...]:
    return SkillFiles(folder).tools


def load(name: Any) -> Any:
    return step(("skills_load", {"name": name}))


# --- the files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        PDF,
        "\ufeff" + PDF,
        PDF.replace("\n", "\r\n"),
        PDF.replace("---\n", "---  \n"),
        PDF.replace("pdf", '"pdf"').replace("Fill in forms.", "'Fill in forms.'"),
        PDF.replace("description: Fill in forms.", "description: >-\n  Fill\n  in forms.\nlicense: MIT"),
        PDF.replace("description: Fill in forms.", "description:\n  Fill in\n    forms."),
        PDF.replace(
            "name: pdf", "# a comment\n\nmetadata:\n  name: other\nlist:\n- one: 1\n- two\nNAME:   pdf  "
        ),
    ],
)
def test_a_skill_is_read_however_its_file_was_written(tmp_path: Path, text: str) -> None:
    put(tmp_path, "x", text)
    skill = read_skill(tmp_path / "x")
    assert (skill.name, skill.description, skill.text) == ("pdf", "Fill in forms.", "# How\n\nFirst, look.")


def test_a_value_may_hold_a_colon_and_the_text_lines_of_dashes(tmp_path: Path) -> None:
    put(tmp_path, "x", "---\nname: a:b\ndescription: when: always\n---\nyes\n---\nno\n")
    skill = read_skill(tmp_path / "x")
    assert (skill.name, skill.description, skill.text) == ("a:b", "when: always", "yes\n---\nno")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with"),
        ("# How\n", "does not begin with"),
        ("---\nname: x\ndescription: y\n", "does not begin with"),
        ("\n" + PDF, "does not begin with"),
        (PDF.replace("name: pdf\n", ""), "its name is missing"),
        (PDF.replace("name: pdf", "name: '  '"), "its name is missing"),
        (PDF.replace("name: pdf", "name: " + "x" * 65), "longer than 64"),
        (PDF.replace("description: Fill in forms.\n", ""), "its description is missing"),
        ("---\nname: x\ndescription: y\n---\n \n", "no text"),
        (PDF.encode() + b"\xff", "not UTF-8"),
        (PDF + "x" * MOST_BYTES, "larger than"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | bytes, why: str) -> None:
    put(tmp_path, "x", text)
    with pytest.raises(Unusable, match=why):
        read_skill(tmp_path / "x")
    assert why in SkillFiles(tmp_path).unusable["x"]


def test_one_that_cannot_be_used_does_not_keep_the_others_from_being_used(folder: Path) -> None:
    put(folder, "broken", "nothing")
    put(folder, "same", PDF)
    (folder / "dir" / "SKILL.md").mkdir(parents=True)
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "SKILL.md")
    (folder / "loop").mkdir()
    (folder / "loop" / "SKILL.md").symlink_to("SKILL.md")
    (folder / "no skill").mkdir()
    (folder / "README.md").touch()
    files = SkillFiles(folder)
    assert list(files.skills) == ["docs", "pdf"]
    assert sorted(files.unusable) == ["broken", "dir", "loop", "pipe", "same"]
    assert files.unusable["same"] == "'pdf' has the same name: pdf"


def test_a_folder_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    assert (SkillFiles(tmp_path / "gone").skills, SkillFiles(tmp_path / "gone").describe()) == ({}, "")


# --- what is told ----------------------------------------------------------------------------------------


def test_the_model_is_told_names_and_descriptions_and_no_more(folder: Path) -> None:
    assert SkillFiles(folder).describe().splitlines()[1:] == ["- docs: Write docs.", "- pdf: Fill in forms."]


def test_however_many_there_are_it_is_told_a_few_thousand_characters(tmp_path: Path) -> None:
    for number in range(200):
        put(tmp_path, f"s{number:03}", f"---\nname: s{number:03}\ndescription: {'long ' * 200}\n---\ntext")
    told = SkillFiles(tmp_path).describe()
    assert len(told) < 8_200
    assert told.endswith(" more: skills_list tells them")


def test_what_is_told_changes_when_the_files_are_read_again_and_not_before(folder: Path) -> None:
    files = SkillFiles(folder)
    before = files.describe()
    put(folder, "new", PDF.replace("pdf", "new"))
    assert files.describe() == before
    files.read()
    assert "- new: " in files.describe()


# --- in a run --------------------------------------------------------------------------------------------


async def test_a_list_has_them_all_which_are_in_use_and_what_is_wrong(store: Store, folder: Path) -> None:
    put(folder, "broken", "nothing")
    both = [load("pdf"), step(("skills_list", {}), ids=["c2"])]
    chat, _ = await ran(store, tools(folder), *both)
    listed = (await returned(chat))[-1]
    assert listed["skills"] == [
        {"name": "docs", "description": "Write docs.", "active": False},
        {"name": "pdf", "description": "Fill in forms.", "active": True},
    ]
    assert [row["folder"] for row in listed["unusable"]] == ["broken"]


async def test_a_skill_that_is_loaded_is_in_what_the_model_is_told_from_the_next_step_on(
    store: Store, folder: Path
) -> None:
    chat, model = await ran(store, tools(folder), load("pdf"))
    assert "First, look." not in model.payloads[0]["system"]
    assert "First, look." in model.payloads[1]["system"]
    [event] = await events(chat, SkillActivated)
    assert (event.name, event.text, len(event.fingerprint)) == ("pdf", "# How\n\nFirst, look.", 32)
    assert (await returned(chat))[0] == {
        "success": True, "name": "pdf", "folder": str(folder / "pdf"), "already_in_use": False,
    }  # fmt: skip


async def test_it_is_recorded_in_the_name_of_the_run(store: Store, folder: Path) -> None:
    chat, _ = await ran(store, tools(folder), load("pdf"))
    assert all([entry.run async for entry in chat.entries() if isinstance(entry.event, SkillActivated)])


async def test_the_same_text_is_loaded_once_also_side_by_side_and_a_changed_one_again(
    store: Store, folder: Path
) -> None:
    twice = step(("skills_load", {"name": "pdf"}), ("skills_load", {"name": "pdf"}))
    chat, _ = await ran(store, tools(folder), twice)
    assert sorted(told["already_in_use"] for told in await returned(chat)) == [False, True]
    put(folder, "pdf", PDF.replace("look", "think"))
    chat, model = await ran(store, tools(folder), load("pdf"), load("pdf"))
    assert len(await events(chat, SkillActivated)) == 2
    assert "First, think." in model.payloads[1]["system"]
    assert "First, look." not in model.payloads[1]["system"]


async def test_after_a_restart_it_is_in_use_as_it_was_whatever_became_of_the_file(
    store: Store, folder: Path
) -> None:
    await ran(store, tools(folder), load("pdf"))
    (folder / "pdf" / "SKILL.md").unlink()
    chat, model = await ran(store, tools(folder))
    assert [*chat[skills].active] == ["pdf"]
    assert "First, look." in model.payloads[0]["system"]


async def test_a_rewind_to_before_it_takes_it_out_of_use_and_it_can_be_loaded_again(
    store: Store, folder: Path
) -> None:
    chat, _ = await ran(store, tools(folder), load("pdf"))
    await chat.rewind(1)
    assert [*chat[skills].active] == []
    chat, _ = await ran(store, tools(folder), load("pdf"))
    assert (await returned(chat))[-1]["already_in_use"] is False


@pytest.mark.parametrize(
    "name",
    ["xlsx", "", "PDF", "../pdf", "pdf/../pdf", "./pdf", "/etc", "pdf\0", "..\\pdf", "\ud800", "x" * 100_000],
)
async def test_a_name_that_is_not_there_is_refused_with_those_that_are_and_no_file_is_touched(
    chat: Chat, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatfold.agent.run_context import RunContext, enter

    listed, load_it = SkillFiles(folder).tools
    opened: list[str] = []
    original = Path.open

    def watched(self: Path, *args: Any, **kwargs: Any) -> Any:
        opened.append(str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", watched)
    enter(RunContext(chat, "r1"), "c1")
    result = await load_it.call({"name": name})
    assert result["success"] is False
    assert result["error"].endswith("; there are: docs, pdf")
    assert len(result["error"]) < 300
    assert set(opened) == {str(folder / skill / "SKILL.md") for skill in ("docs", "pdf")}
    assert chat.seq == 0
    assert listed.name == "skills_list"


async def test_a_refusal_is_a_failed_result_of_the_run(store: Store, folder: Path) -> None:
    chat, _ = await ran(store, tools(folder), load("../pdf"))
    assert [event.failed for event in await events(chat, ToolReturned)] == [True]
    assert await events(chat, SkillActivated) == []
