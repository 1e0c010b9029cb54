"""What the model is sent: the rules one by one, and what each provider makes of them."""

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from chatfold.agent.models import Request, scripted_payload
from chatfold.eventlog import (
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Event,
    File,
    Injected,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Part,
    Reasoning,
    Rewound,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from chatfold.projections import Message, to_anthropic, to_openai, to_openai_responses
from chatfold.projections.labels import INTERRUPTED
from chatfold.projections.prompt import first_difference
from chatfold.projections.text import text_of
from tests.projections.test_validity import check, prompted
from tests.support.histories import assistant, compacted, entries, user

REQUEST = ModelCalled("m", "")


def called(id: str = "c1", name: str = "read", args: Json = None) -> ToolCalled:
    return ToolCalled(id, name, args)


def returned(id: str = "c1", text: str = "found") -> ToolReturned:
    return ToolReturned(id, (Text(text),))


def prompt(*events: Event) -> tuple[Message, ...]:
    """What is sent after these events; every provider takes it."""
    made = prompted(entries(events))
    check(made)
    return made


def told(*events: Event) -> list[str]:
    """The same in words: a line a message or result, with the ids of calls."""
    lines = []
    for message in prompt(*events):
        calls = "".join(f" -> {call.id}" for call in message.calls)
        lines += [f"{message.role}: {text_of(result.parts)}" for result in message.results]
        lines += [] if message.results else [f"{message.role}: {text_of(message.parts)}{calls}"]
    return lines


# --- turns -----------------------------------------------------------------------------------------------


def test_turns_are_shown_in_the_order_of_the_log() -> None:
    assert told(user("Hi"), assistant("Hello"), user("Bye")) == ["user: Hi", "assistant: Hello", "user: Bye"]


def test_what_is_recorded_for_the_audit_alone_is_not_shown() -> None:
    audited = [MessageAdded(role, (Text("secret"),), "audit") for role in ("user", "assistant", "system")]
    assert told(user("Hi"), *audited) == ["user: Hi"]


def test_what_the_user_never_said_is_shown_if_it_is_internal() -> None:
    assert told(MessageAdded("user", (Text("Go on."),), "internal")) == ["user: Go on."]


def test_what_is_no_turn_is_passed_over() -> None:
    asides = (RunStarted("a"), Unknown("x", b'{"type":"x"}'), ModelReturned(stop="end"), RunFinished("done"))
    assert told(user("Hi"), *asides, assistant("Hello")) == ["user: Hi", "assistant: Hello"]


def test_the_embedders_system_and_developer_messages_keep_their_roles() -> None:
    system, developer = (MessageAdded(role, (Text(role),)) for role in ("system", "developer"))
    made = prompt(system, developer, user("Hi"), system)
    for shape in (to_openai(made), to_openai_responses(made)):
        assert [message["role"] for message in shape] == ["system", "developer", "user", "system"]


def test_anthropic_is_told_the_first_ones_as_system_and_later_ones_by_the_user() -> None:
    system, developer = (MessageAdded(role, (Text(role),)) for role in ("system", "developer"))
    request = to_anthropic(prompt(system, user("Hi"), developer))
    assert request["system"] == [{"type": "text", "text": "system"}]
    assert [turn["role"] for turn in request["messages"]] == ["user", "user"]
    assert request["messages"][1]["content"] == [{"type": "text", "text": "[system] developer"}]


@pytest.mark.parametrize(
    "parts", [(), (Text(" \n"),), (Reasoning("hm", "openai", "m", "s", "rs_1"),), (Data("chart", 1),)]
)
def test_an_answer_that_says_nothing_is_not_sent(parts: tuple[Part, ...]) -> None:
    made = prompt(user("Hi"), MessageAdded("assistant", parts), user("Well?"))
    assert [message["role"] for message in to_openai(made)] == ["user", "user"]
    assert len(to_openai_responses(made, model="m")) == 2
    assert len(to_anthropic(made, provider="openai", model="m")["messages"]) == 2


@pytest.mark.parametrize(
    "text", ["", "\ud800", "\ud83d\ude00", "a\ud800b", "\udc00\ud800\ufeff", "\ufeff\ud800"]
)
def test_halves_of_surrogate_pairs_are_replaced_and_nothing_else_is(text: str) -> None:
    [message] = to_openai(prompt(user(f"<{text}>")))
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert message["content"] == f"<{whole}>"


@pytest.mark.parametrize("parts", [(), (Text(" \n"),), (Data("chart", 1), Text(""))])
def test_a_user_who_says_nothing_is_not_heard(parts: tuple[Part, ...]) -> None:
    made = prompt(user("Hi"), MessageAdded("user", parts))
    assert (len(to_openai(made)), len(to_openai_responses(made)), len(to_anthropic(made)["messages"])) == (
        1,
        1,
        1,
    )


def test_turns_of_one_role_follow_each_other_as_they_were_said() -> None:
    made = prompt(user("One."), user("Two."))
    assert [message["content"] for message in to_openai(made)] == ["One.", "Two."]
    assert [turn["content"][0]["text"] for turn in to_anthropic(made)["messages"]] == ["One.", "Two."]


def test_a_user_is_given_the_first_word_where_the_provider_wants_it() -> None:
    made = prompt(assistant("Welcome!"), user("Hi"))
    assert [turn["role"] for turn in to_anthropic(made)["messages"]] == ["user", "assistant", "user"]
    assert [message["role"] for message in to_openai(made)] == ["assistant", "user"]


# --- tool calls and results ------------------------------------------------------------------------------


def test_a_call_belongs_to_the_words_before_it_and_is_answered_by_its_result() -> None:
    lines = ["user: Hi", "assistant: Let me see. -> c1", "tool: found"]
    assert told(user("Hi"), assistant("Let me see."), called(), returned()) == lines


def test_a_call_without_a_result_is_answered_as_interrupted() -> None:
    assert told(called()) == ["assistant:  -> c1", f"tool: {INTERRUPTED}"]


def test_a_second_result_of_a_call_is_not_shown() -> None:
    assert told(called(), returned(), returned(text="again")) == ["assistant:  -> c1", "tool: found"]


def test_a_result_without_a_call_is_not_shown() -> None:
    assert told(user("Hi"), returned("c9")) == ["user: Hi"]


def test_a_result_before_the_call_is_not_its_result() -> None:
    assert told(returned(), called()) == ["assistant:  -> c1", f"tool: {INTERRUPTED}"]


def test_parallel_calls_are_one_message_answered_in_the_order_of_the_calls() -> None:
    results = (returned("c3", "3"), returned("c1", "1"))
    lines = ["assistant:  -> c1 -> c2 -> c3", "tool: 1", f"tool: {INTERRUPTED}", "tool: 3"]
    assert told(called("c1"), called("c2"), called("c3"), *results) == lines


def test_a_call_after_answered_calls_is_the_next_step() -> None:
    lines = ["assistant:  -> c1", "tool: found", "assistant:  -> c2", "tool: found"]
    assert told(called("c1"), returned("c1"), called("c2"), returned("c2")) == lines


def test_what_is_said_between_a_call_and_its_result_is_shown_after_it_in_all_later_requests() -> None:
    so_far: list[Event] = [called("c1"), called("c2"), returned("c1"), user("Stop!"), returned("c2")]
    lines = ["assistant:  -> c1 -> c2", "tool: found", "tool: found", "user: Stop!"]
    assert told(*so_far) == lines
    so_far += [REQUEST, assistant("I stopped."), user("Thanks."), REQUEST]
    assert told(*so_far) == [*lines, "assistant: I stopped.", "user: Thanks."]


def test_what_is_said_while_a_result_is_missing_is_shown_after_the_interruption() -> None:
    lines = ["assistant:  -> c1", f"tool: {INTERRUPTED}", "user: Stop!"]
    assert told(called(), user("Stop!")) == lines
    assert told(called(), user("Stop!"), REQUEST, assistant("Yes.")) == [*lines, "assistant: Yes."]


@pytest.mark.parametrize("closing", [REQUEST, assistant("Never mind.")])
def test_a_result_that_comes_late_is_shown_where_it_came_and_labelled(closing: Event) -> None:
    before = prompt(called(), closing)
    after = prompt(called(), closing, returned(), returned(text="again"))
    assert after[: len(before)] == before
    [late] = after[len(before) :]
    assert (late.role, late.kind) == ("user", "late")
    assert text_of(late.parts).startswith("Late result of read")
    assert text_of(late.parts).endswith("found")


def test_each_of_two_calls_with_one_id_gets_its_late_result() -> None:
    made = prompt(called(name="one"), REQUEST, called(name="two"), REQUEST, returned(), returned(text="more"))
    labels = [text_of(message.parts[:1]) for message in made if message.kind == "late"]
    assert [label.split()[3] for label in labels] == ["one,", "two,"]


def test_the_data_of_a_result_is_shown_whether_it_is_late_or_not() -> None:
    result = ToolReturned("c1", (Data("chart", {"x": [1]}),))
    for made in (prompt(called(), result), prompt(called(), REQUEST, result)):
        for shape in (to_openai(made), to_openai_responses(made), to_anthropic(made)["messages"]):
            assert '{"x":[1]}' in str(shape[-1])


def test_a_failure_is_told() -> None:
    made = prompt(called(), ToolReturned("c1", (Text("no such file"),), failed=True))
    assert to_openai(made)[-1]["content"] == "Error: no such file"
    assert to_openai_responses(made)[-1]["output"] == "Error: no such file"
    assert to_anthropic(made)["messages"][-1]["content"][0]["is_error"] is True


def test_a_result_of_nothing_is_a_result() -> None:
    made = prompt(called(), ToolReturned("c1"))
    assert to_openai(made)[-1]["content"] == "(no output)"
    assert "content" not in to_anthropic(made)["messages"][-1]["content"][0]


def test_the_meta_of_events_goes_along_and_no_script_is_asked_with_it() -> None:
    asked = MessageAdded("user", (Text("a"),), meta={"n": 1})
    answer = MessageAdded("assistant", (Text("b"),), meta={"n": 2})
    call, found = ToolCalled("c1", "read", meta={"n": 3}), ToolReturned("c1", meta={"n": 4})
    kept = prompt(asked, answer, call, found)
    assert [message.meta for message in kept] == [{"n": 1}, {"n": 2}, UNSET]
    assert (kept[1].calls[0].meta, kept[2].results[0].meta) == ({"n": 3}, {"n": 4})
    bare = prompt(*(replace(event, meta={}) for event in (asked, answer, call, found)))
    assert scripted_payload(Request("", kept)) == scripted_payload(Request("", bare))


def test_no_message_has_more_calls_than_providers_take() -> None:
    many = [str(number) for number in range(300)]
    made = prompt(assistant("All!"), *map(called, many), *(returned(id, id) for id in reversed(many)))  # noqa: A001
    assert [len(message.calls) for message in made] == [128, 0, 128, 0, 44, 0]
    assert [text_of(result.parts) for message in made for result in message.results] == many
    assert [text_of(message.parts) for message in made] == ["All!", "", "", "", "", ""]


# --- names, ids and arguments ----------------------------------------------------------------------------


def wire_ids(shape: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Of a Chat Completion: the ids of the calls and those of the results."""
    calls = [call["id"] for message in shape for call in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in shape if message["role"] == "tool"]


def test_a_call_keeps_its_id() -> None:
    assert wire_ids(to_openai(prompt(called("toolu_1"), returned("toolu_1")))) == (["toolu_1"], ["toolu_1"])


def test_an_id_that_is_used_again_is_another_one_on_the_wire_and_keeps_its_result() -> None:
    shape = to_openai(prompt(called(), returned(text="1"), called(), returned(text="2")))
    calls, results = wire_ids(shape)
    assert calls == results
    assert len(set(calls)) == 2
    assert [message["content"] for message in shape if message["role"] == "tool"] == ["1", "2"]


@pytest.mark.parametrize("id", ["", "no id!", "é", "\ud800", "x" * 200])
def test_an_id_that_providers_refuse_is_another_one_on_the_wire(id: str) -> None:
    calls, results = wire_ids(to_openai(prompt(called(id), returned(id))))
    assert calls == results == ["call_1"]


def test_an_id_that_is_made_up_is_nobody_elses() -> None:
    taken = ("c1", "call_8", "call_8_1", "call_8_2", "call_8_6", "call_8_8", "call_8_3")
    calls, results = wire_ids(to_openai(prompt(*map(called, (*taken, "c1", "no id!")))))
    assert calls == results
    assert calls[: len(taken)] == list(taken)
    assert len(set(calls)) == 9


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        (None, {}),
        ({"path": "a"}, {"path": "a"}),
        ([1, 2], {"value": [1, 2]}),
        ('{"broken": ', {"value": '{"broken": '}),
        ({"n": float("nan"), "b": b"\xff", "s": "\ud800"}, {"n": None, "b": "/w==", "s": "\ufffd"}),
        (2**64, {"value": 2**64}),
    ],
)
def test_arguments_are_sent_as_an_object_of_strict_json(args: Json, sent: Json) -> None:
    made = prompt(called(args=args))
    assert json.loads(to_openai(made)[0]["tool_calls"][0]["function"]["arguments"]) == sent
    assert json.loads(to_openai_responses(made)[0]["arguments"]) == sent
    assert to_anthropic(made)["messages"][1]["content"][0]["input"] == sent


def test_names_of_mcp_tools_are_accepted_and_stay_different() -> None:
    names = ["read", "files:read", "files.read", "files_read", "検索", "", "n" * 300, "n" * 301, "a" * 64]
    made = prompt(*(called(str(seq), name) for seq, name in enumerate(names)))
    sent = [call["function"]["name"] for call in to_openai(made)[0]["tool_calls"]]
    assert len(set(sent)) == len(names)
    assert (sent[0], sent[3], sent[8]) == ("read", "files_read", "a" * 64)
    assert sent[1].startswith("files_read_")
    assert [use["name"] for use in to_anthropic(made)["messages"][1]["content"]] == sent
    assert [item["name"] for item in to_openai_responses(made)[: len(names)]] == sent


# --- contexts --------------------------------------------------------------------------------------------

SUMMED_UP = "assistant: Summary of the earlier conversation:\nin short"


def test_a_summary_stands_in_the_place_of_what_was_compacted() -> None:
    talk = (user("1"), assistant("2"), user("3"), assistant("4"), user("5"))
    assert told(*talk, compacted(2, 4)) == ["user: 1", SUMMED_UP, "user: 5"]
    assert told(*talk, compacted(1, 5), user("6")) == [SUMMED_UP, "user: 6"]
    assert told(*talk, compacted(2, 3), compacted(2, 4)) == ["user: 1", SUMMED_UP, "user: 5"]
    assert told(*talk, compacted(2, 4), CompactionReverted(6)) == told(*talk)


def test_a_compaction_may_hide_a_call_or_its_result() -> None:
    assert told(called(), returned(), user("Hi"), compacted(1, 1)) == [SUMMED_UP, "user: Hi"]
    lines = ["assistant:  -> c1", f"tool: {INTERRUPTED}", SUMMED_UP, "user: Hi"]
    assert told(called(), returned(), user("Hi"), compacted(2, 2)) == lines


def test_what_is_recalled_is_labelled_as_for_reference_only() -> None:
    [_, recalled] = prompt(ContextOpened("b"), user("2"), ContextRecalled("main", "full", "1!"))
    assert (recalled.role, recalled.kind) == ("user", "recalled")
    text = text_of(recalled.parts)
    assert "for reference only" in text
    assert ("contextId: main" in text, "mode: full" in text, text.endswith("1!")) == (True, True, True)


def test_a_context_that_is_taken_up_again_is_shown_as_it_was_without_a_label() -> None:
    left = (user("1"), assistant("2"))
    assert told(*left, ContextOpened("b"), user("3")) == ["user: 3"]
    assert told(*left, ContextOpened("b"), user("3"), ContextSwitched("main")) == told(*left)


def test_what_arrives_while_a_model_answers_comes_after_its_answer() -> None:
    asked = (user("1"), ModelCalled("m", "r"), user("2"), ModelReturned())
    assert told(*asked, assistant("a")) == ["user: 1", "assistant: a", "user: 2"]
    step = ["user: 1", "assistant:  -> c1", "tool: found", "user: 2"]
    assert told(*asked, called("c1"), returned("c1")) == step
    assert told(*asked, ModelCalled("m", "r")) == ["user: 1", "user: 2"]
    assert told(user("1"), ModelCalled("m", "r"), user("2")) == ["user: 1", "user: 2"]


def test_a_model_whose_answer_is_in_another_context_is_not_waited_for() -> None:
    left = (user("1"), ModelCalled("m", "r"), ModelReturned(), called("c1"), ContextOpened("b", carry=(1, 4)))
    back = (
        returned("c1"),
        assistant("there"),
        user("2"),
        ModelCalled("m", "r"),
        ModelReturned(),
        called("c2"),
    )
    moved = (*left, *back, ContextSwitched("main", carry=(8, 11)), returned("c2"))
    assert told(*moved) == ["user: 2", "assistant:  -> c2", "tool: found"]


def test_what_is_injected_is_shown_once_a_context() -> None:
    def injected(text: str, fingerprint: str) -> Injected:
        return Injected("user", fingerprint, (Text(text),))

    twice = (injected("rules", "r"), user("Hi"), injected("rules", "r"), injected("hints", "h"))
    label = "[Added by the application, not the user's words]"
    lines = [f"user: {label}\nrules", f"user: {label}\nhints", "user: Hi"]
    assert told(*twice) == lines
    assert told(*twice, ContextCleared(), *twice) == lines


@pytest.mark.parametrize(
    ("role", "shown"), [("system", "user"), ("developer", "user"), ("assistant", "assistant")]
)
def test_what_is_injected_has_the_role_of_a_user_or_an_assistant(role: Any, shown: str) -> None:
    [message] = prompt(Injected(role, "r", (Text("rules"),)))
    assert (message.role, message.kind) == (shown, "injected")


def test_a_context_opened_among_parallel_calls_begins_without_them() -> None:
    before = (user("1"), called("c1"), called("c2"), returned("c1"))
    moved = (*before, ContextOpened("b"), returned("c2"), user("2"))
    assert told(*moved) == ["user: 2"]
    lines = ["user: 1", "assistant:  -> c1 -> c2", "tool: found", f"tool: {INTERRUPTED}"]
    assert told(*moved, ContextSwitched("main")) == lines


@pytest.mark.parametrize("carry", [(1, 2, 3, 4), (1,), (2,), (3,), (4,), (1, 3), (2, 4), (3, 4)])
def test_what_is_carried_along_from_among_parallel_calls_is_whole_in_both_contexts(
    carry: tuple[int, ...],
) -> None:
    before = (user("1"), called("c1"), called("c2"), returned("c1"))
    moved = (*before, ContextOpened("b", carry=carry), returned("c2"), user("2"))
    calls = [call.seq for message in prompt(*moved) for call in message.calls]
    assert calls == [seq for seq in carry if seq in (2, 3)]
    left = prompt(*moved, ContextSwitched("main"))
    assert [call.seq for message in left for call in message.calls] == [
        seq for seq in (2, 3) if seq not in carry
    ]
    if carry == (1, 2, 3, 4):
        assert told(*moved) == ["user: 1", "assistant:  -> c1 -> c2", "tool: found", "tool: found", "user: 2"]


def test_what_was_rewound_is_not_shown() -> None:
    assert told(user("1"), called(), Rewound(1), returned(), user("2")) == ["user: 1", "user: 2"]


def test_the_first_message_that_changed_is_named() -> None:
    talk = (user("1"), assistant("2"), user("3"), assistant("4"))
    sent = prompt(*talk)
    assert first_difference(sent, prompt(*talk, REQUEST)) is None
    assert first_difference(sent, prompt(*talk, user("5"))) == 4
    assert first_difference(sent, prompt(*talk, compacted(2, 3))) == 1
    assert first_difference(sent, prompt(*talk, Rewound(1))) == 1
    assert first_difference(to_openai(sent), to_openai(prompt(*talk, ContextCleared(), user("1")))) == 1


# --- files -----------------------------------------------------------------------------------------------

WEB = "https://example.org/a"


@pytest.mark.parametrize(
    ("file", "chat", "responses", "claude"),
    [
        (File("image/png", b"x"), "image_url", "input_image", "image"),
        (File("image/png", url=WEB), "image_url", "input_image", "image"),
        (File("application/pdf", b"x"), "file", "input_file", "document"),
        (File("application/pdf", url=WEB), "text", "input_file", "document"),
        (File("audio/wav", b"x"), "input_audio", "input_text", "text"),
        (File("audio/wav", url=WEB), "text", "input_text", "text"),
        (File("image/tiff", b"x"), "text", "input_text", "text"),
        (File("text/plain", b"x"), "text", "input_text", "text"),
        (File("image/png"), "text", "input_text", "text"),
        (File("image/png", url="file:///etc/passwd"), "text", "input_text", "text"),
        (File("application/pdf", url="javascript:alert(1)"), "text", "input_text", "text"),
        (File("image/png", url="https:///etc"), "text", "input_text", "text"),
        (File("image/png", url="https://two words.org"), "text", "input_text", "text"),
    ],
)
def test_a_file_is_sent_where_the_provider_takes_it_and_described_elsewhere(
    file: File, chat: str, responses: str, claude: str
) -> None:
    made = prompt(MessageAdded("user", (Text("Look:"), file)))
    assert to_openai(made)[0]["content"][1]["type"] == chat
    assert to_openai_responses(made)[0]["content"][1]["type"] == responses
    assert to_anthropic(made)["messages"][0]["content"][1]["type"] == claude


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_a_file_of_somebody_else_than_the_user_is_described(role: Any) -> None:
    made = prompt(user("Hi"), MessageAdded(role, (File("image/png", b"xyz", "a.png"),)))
    description = "[file a.png: image/png, 3 bytes]"
    assert to_openai(made)[1]["content"] == description
    assert description in str(to_openai_responses(made)[1]["content"])
    assert to_anthropic(made)["messages"][1]["content"][0]["text"].endswith(description)


@pytest.mark.parametrize(("failed", "claude"), [(False, "image"), (True, "text")])
def test_a_file_that_a_tool_returned_is_an_image_to_anthropic_unless_the_tool_failed(
    failed: bool, claude: str
) -> None:
    made = prompt(called(), ToolReturned("c1", (File("image/png", b"xyz", "a.png"),), failed))
    assert "[file a.png: image/png, 3 bytes]" in to_openai(made)[-1]["content"]
    [block] = to_anthropic(made)["messages"][-1]["content"][0]["content"]
    assert block["type"] == claude


@pytest.mark.parametrize(
    ("name", "sent"), [("a.PDF", "a.PDF"), ("report", "report.pdf"), (" ", "file.pdf"), (".pdf", ".pdf.pdf")]
)
def test_the_name_of_a_pdf_says_that_it_is_one(name: str, sent: str) -> None:
    made = prompt(MessageAdded("user", (File("application/pdf", b"x", name),)))
    assert to_openai(made)[0]["content"][0]["file"]["filename"] == sent
    assert to_openai_responses(made)[0]["content"][0]["filename"] == sent


# --- reasoning -------------------------------------------------------------------------------------------


def thought(text: str = "hm", provider: str = "p", model: str = "m", id: str = "rs_1") -> Reasoning:
    return Reasoning(text, provider, model, "signed", id)


def thinking(*parts: Part) -> MessageAdded:
    return MessageAdded("assistant", parts)


def kinds(*events: Event, provider: str = "p", model: str = "m") -> tuple[list[str], list[list[str]]]:
    """The types of what is sent: items to OpenAI, and to Anthropic blocks, turn by turn."""
    made = prompt(*events)
    items = [item["type"] for item in to_openai_responses(made, provider=provider, model=model)]
    turns = to_anthropic(made, provider=provider, model=model)["messages"]
    return items, [[block["type"] for block in turn["content"]] for turn in turns]


def test_reasoning_goes_back_to_the_model_it_came_from() -> None:
    talk = (user("Hi"), thinking(thought(), Text("Hello.")))
    assert kinds(*talk) == (["message", "reasoning", "message"], [["text"], ["thinking", "text"]])
    assert "hm" not in str(to_openai(prompt(*talk)))


@pytest.mark.parametrize(("provider", "model"), [("p", "n"), ("q", "m"), ("", "")])
def test_reasoning_goes_to_no_other_model(provider: str, model: str) -> None:
    sent = kinds(user("Hi"), thinking(thought(), Text("Hello.")), provider=provider, model=model)
    assert sent == (["message", "message"], [["text"], ["text"]])


def test_reasoning_without_its_signature_is_not_sent() -> None:
    assert kinds(user("Hi"), thinking(Reasoning("hm", "p", "m", id="rs_1"), Text("Hello."))) == (
        ["message", "message"],
        [["text"], ["text"]],
    )


def test_reasoning_that_led_to_a_call_is_sent_with_it() -> None:
    items, turns = kinds(user("Hi"), thinking(thought()), called(), returned())
    assert items == ["message", "reasoning", "function_call", "function_call_output"]
    assert turns == [["text"], ["thinking", "tool_use"], ["tool_result"]]


def test_reasoning_that_led_to_nothing_is_not_sent() -> None:
    items, turns = kinds(user("Hi"), thinking(thought(), Text("Hello."), thought(id="rs_2")))
    assert items == ["message", "reasoning", "message"]
    assert turns == [["text"], ["thinking", "text"]]


def test_reasoning_that_was_recorded_twice_is_sent_to_openai_once() -> None:
    items, _ = kinds(user("Hi"), thinking(thought(), thought(), Text("1")), thinking(thought(), Text("2")))
    assert items == ["message", "reasoning", "message", "message"]


@pytest.mark.parametrize("id", ["", "msg_1", "rs é", "rs_" * 30])
def test_reasoning_with_an_id_that_openai_refuses_is_not_sent_there(id: str) -> None:
    assert kinds(user("Hi"), thinking(thought(id=id), Text("Hello.")))[0] == ["message", "message"]


def test_reasoning_that_anthropic_would_join_to_words_before_it_comes_after_a_word_of_the_user() -> None:
    _, turns = kinds(user("1"), compacted(1, 1), thinking(thought()), called(), returned())
    assert turns == [["text"], ["text"], ["text"], ["thinking", "tool_use"], ["tool_result"]]
    _, turns = kinds(user("1"), thinking(thought(), Text("2")), thinking(thought(), Text("3")))
    assert turns == [["text"], ["thinking", "text"], ["thinking", "text"]]


def test_reasoning_in_the_middle_of_an_answer_is_not_sent_to_anthropic() -> None:
    _, turns = kinds(user("Hi"), thinking(Text("Well,"), thought(), Text("hello.")))
    assert turns == [["text"], ["text", "text"]]


@pytest.mark.parametrize(
    ("redacted", "sent"),
    [
        (True, {"type": "redacted_thinking", "data": "signed"}),
        (False, {"type": "thinking", "thinking": "", "signature": "signed"}),
    ],
)
def test_reasoning_that_was_not_shown_goes_back_to_anthropic_as_it_came(redacted: bool, sent: Json) -> None:
    hidden = Reasoning("", "p", "m", "signed", redacted=redacted)
    made = prompt(user("Hi"), thinking(hidden, Text("Hello.")))
    assert to_anthropic(made, provider="p", model="m")["messages"][1]["content"][0] == sent


def test_a_text_file_is_read_to_the_model_and_another_is_described() -> None:
    files = File("text/csv", b"a,b", name="t.csv"), File("application/zip", b"PK", name="z.zip")
    [turn] = to_openai(prompt(MessageAdded("user", files)))
    assert [part["text"] for part in turn["content"]] == [
        "[file t.csv: text/csv, 3 bytes]\na,b",
        "[file z.zip: application/zip, 2 bytes]",
    ]
