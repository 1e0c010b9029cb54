"""Verdicts as a JUnit file, which every CI shows: a test case a chat, a failure where it diverged.

What stands in it was said by users, models and tools: it is escaped, and what XML cannot hold at all is left out.
"""

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from chatfold.replay.verify.divergence import Verdict

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(verdicts: Sequence[Verdict], errors: Mapping[str, BaseException] | None = None) -> bytes:
    """``errors``: of chats that could not be judged at all, such as a log that is damaged; by key."""
    failures = [found for found in verdicts if not found.ok]
    told = errors or {}
    count = {"tests": len(verdicts) + len(told), "failures": len(failures), "errors": len(told)}
    suite = ET.Element("testsuite", {"name": "chatfold replay", **{k: str(n) for k, n in count.items()}})
    for found in verdicts:
        case = _case(suite, found.chat)
        if found.divergence is not None:
            text = "\n".join(map(str, (found.divergence, *found.more)))
            _fill(ET.SubElement(case, "failure", {"type": "Diverged"}), text)
        ET.SubElement(case, "system-out").text = _clean(_counts(found))
    for chat, error in told.items():
        _fill(ET.SubElement(_case(suite, chat), "error", {"type": type(error).__name__}), str(error))
    whole = ET.Element("testsuites", {name: str(number) for name, number in count.items()})
    whole.append(suite)
    data: bytes = ET.tostring(whole, encoding="utf-8", xml_declaration=True)
    return data


def _case(suite: ET.Element, chat: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": "chatfold.replay", "name": _clean(chat)})


def _fill(element: ET.Element, text: str) -> None:
    element.set("message", _clean(text.partition("\n")[0]))
    element.text = _clean(text)


def _counts(found: Verdict) -> str:
    return (
        f"{found.entries} entries, {found.turns} turns, {found.model_calls} model calls, {found.tool_calls} tool calls; "
        f"{found.proved} requests proved, {found.unprovable} not provable; {found.runs} runs rehearsed, 0 live"
    )


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
