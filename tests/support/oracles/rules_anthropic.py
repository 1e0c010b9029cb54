"""Anthropic's rules for the ``system`` and the ``messages`` of the Messages API, as the API enforces them.

Where the rules come from: the errors of the API, quoted as they were reported; the pages of the documentation
(https://platform.claude.com/docs); the types of the package ``anthropic``; and the OpenAPI description that Anthropic
published (https://github.com/laszukdawid/anthropic-openapi-spec, ``hosted_spec.json``), which forbids unknown keys
and says what ids and names look like.

Stricter than the newest models are, so that a request is good for all of them: no messages of the role ``system``
("role 'system' is not supported on this model", before Claude Opus 4.8), and a user speaks first. Blocks of tools
that run at the provider are not known here.
"""

from tests.support.oracles.rules_anthropic_blocks import ASSISTANT, USER, need_said, need_text
from tests.support.oracles.rules_shared import Object, is_in, is_list, need, need_json, need_keys

_THOUGHTS = ("thinking", "redacted_thinking")

Turn = tuple[str, list[tuple[int, Object]]]
"""A role, and its blocks with the indexes of the messages they are from."""


def check_anthropic(request: Object, *, prefill: bool = True) -> None:
    """Raises an AssertionError if the Messages API would refuse this ``{"system": ..., "messages": ...}``.

    Without ``prefill`` as the models since Claude 4.6 do, which do not continue an answer: "This model does not
    support assistant message prefill. The conversation must end with a user message."
    """
    need_keys(0, request, {"messages"}, {"system"})
    need_json(0, request.get("system"))
    if "system" in request:
        _system(request["system"])
    messages = request["messages"]
    # The API says: "messages: at least one message is required", also if there is a system prompt
    need(is_list(messages), 0, "there is a message", messages)
    for index, message in enumerate(messages):
        need_json(index, message)
        _message(index, message)
    _cached(request)
    turns = _turns(messages)
    # The API said in 2024: 'messages: first message must use the "user" role'. In 2026 it took a recorded request that
    # began with an assistant; no page promises that, nor that the clouds do the same.
    need(turns[0][0] == "user", 0, "the user speaks first", turns[0][0])
    _paired(turns)
    last = len(messages) - 1
    need(prefill or turns[-1][0] == "user", last, "the user speaks last", turns[-1][0])
    _ending(turns[-1])


def _system(system: object) -> None:
    need(is_list(system), 0, "system is an array with a block at least, or not there", system)
    for block in system:  # type: ignore[attr-defined]
        kind = block.get("type") if type(block) is dict else None
        need(kind == "text", 0, "system is made of texts", block)
        # The API says: "system: text content blocks must be non-empty", "must contain non-whitespace text"
        need_text(0, block)


def _message(index: int, message: Object) -> None:
    # The API says: "messages.0.name: Extra inputs are not permitted"
    need_keys(index, message, {"role", "content"})
    role, content = message["role"], message["content"]
    # The API says: "Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system"
    # as an input message role."
    need(role in ("user", "assistant"), index, "the role is user or assistant", role)
    if type(content) is str:
        need_said(index, content)
        return
    # The API says: "all messages must have non-empty content except for the optional final assistant message"
    need(is_list(content), index, "content is a text, or blocks of which there is one at least", content)
    kinds = USER if role == "user" else ASSISTANT
    for block in content:
        kind = block.get("type") if type(block) is dict else None
        # The API says: "'image' blocks are not permitted within assistant turns"
        need(is_in(kind, kinds), index, "a block is of a type that this role may have", block)
        kinds[str(kind)](index, block)


def _cached(request: Object) -> None:
    marks = _marks(request)
    # "Prompt caching" (https://platform.claude.com/docs/en/build-with-claude/prompt-caching): up to 4 breakpoints
    need(len(marks) <= 4, 0, "there are 4 breakpoints of the cache at most", len(marks))
    for mark in marks:
        need_keys(0, mark, {"type"}, {"ttl"})
        known = mark["type"] == "ephemeral" and mark.get("ttl", "5m") in ("5m", "1h")
        need(known, 0, "a breakpoint of the cache is ephemeral, for 5m or 1h", mark)


def _marks(value: object) -> list[Object]:
    """Every ``cache_control`` of the blocks, the nested ones too."""
    if type(value) is list:
        return [mark for inner in value for mark in _marks(inner)]
    if type(value) is not dict:
        return []
    here = [value["cache_control"]] if "cache_control" in value else []
    return here + [mark for key in ("system", "messages", "content") for mark in _marks(value.get(key))]


def _turns(messages: list[Object]) -> list[Turn]:
    """The types say: "Consecutive `user` or `assistant` turns in your request will be combined into a single turn." """
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if type(content) is str else content
        if not turns or turns[-1][0] != message["role"]:
            turns.append((message["role"], []))
        turns[-1][1].extend((index, block) for block in blocks)
    return turns


def _paired(turns: list[Turn]) -> None:
    """Every use of a tool has its one result at the beginning of the very next turn."""
    used: set[str] = set()
    waiting: dict[str, int] = {}
    for role, blocks in turns:
        if role == "user":
            _answered(blocks, waiting)
        else:
            _ordered(blocks)
            waiting = {block["id"]: index for index, block in blocks if block["type"] == "tool_use"}
            for index, block in blocks:
                if block["type"] == "tool_use":
                    # The API says: "messages.1.content.1: `tool_use` ids must be unique"
                    need(block["id"] not in used, index, "no two uses of a tool share an id", block["id"])
                    used.add(block["id"])
    _all_answered(waiting)


def _answered(blocks: list[tuple[int, Object]], waiting: dict[str, int]) -> None:
    """Takes the results of these uses away, and nothing is left."""
    known, other = set(waiting), None
    for index, block in blocks:
        if block["type"] != "tool_result":
            other = block
            continue
        # "Handle tool calls" (https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls): "the
        # tool_result blocks must come FIRST in the content array. Any text must come AFTER all tool results."
        need(other is None, index, "results come before all else in their turn", other)
        name = block["tool_use_id"]
        # The API says: "unexpected `tool_use_id` found in `tool_result` blocks: toolu_... Each `tool_result` block
        # must have a corresponding `tool_use` block in the previous message."
        need(name in known, index, "a result is that of a use in the turn before", name)
        # The API says: "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
        need(name in waiting, index, "a use has one result", name)
        del waiting[name]
    _all_answered(waiting)


def _all_answered(waiting: dict[str, int]) -> None:
    # The API says: "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_... Each
    # `tool_use` block must have a corresponding `tool_result` block in the next message."
    need(not waiting, max(waiting.values(), default=0), "every use has its result in the next turn", waiting)


def _ordered(blocks: list[tuple[int, Object]]) -> None:
    """Thoughts first, uses of tools last."""
    kinds = [block["type"] for _, block in blocks]
    index = blocks[-1][0]
    thinks = any(kind in _THOUGHTS for kind in kinds)
    # The API says: "If an assistant message contains any thinking blocks, the first block must be `thinking` or
    # `redacted_thinking`. Found `text`."
    need(not thinks or kinds[0] in _THOUGHTS, index, "a turn that has thoughts begins with one", kinds)
    # The API says: "The final block in an assistant message cannot be `thinking`."
    need(kinds[-1] not in _THOUGHTS, index, "a turn does not end with a thought", kinds)
    # The API says to [tool_use, text]: "`tool_use` ids were found without `tool_result` blocks immediately after"
    # (a recorded request: https://github.com/anomalyco/opencode, packages/llm/test/fixtures/recordings/
    # anthropic-messages/rejects-malformed-assistant-tool-order-without-patch.json)
    first = kinds.index("tool_use") if "tool_use" in kinds else len(kinds)
    need(set(kinds[first:]) <= {"tool_use"}, index, "nothing but uses follows a use of a tool", kinds)


def _ending(turn: Turn) -> None:
    index, block = turn[1][-1]
    if turn[0] == "assistant" and block["type"] == "text":
        # The API says: "messages: final assistant content cannot end with trailing whitespace"
        text = block["text"]
        need(text == text.rstrip(), index, "an answer at the end does not end in white space", text)
