"""Explaining: what exactly is not the same in what a run appends now and what it appended then.

A request is recorded as a fingerprint. So what came into it is compared first: the system text line by line, the tools, the
settings; then the request itself, if it can be made again as it was; then the entries that it was made from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chatfold.agent import Moment
from chatfold.agent.models import Model, fingerprint
from chatfold.eventlog import Entry, Event, Json, ModelCalled, Noted
from chatfold.eventlog.search_text import OURS
from chatfold.projections import outline
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.verify.divergence import Change, Divergence, cut, first_change, json_of
from chatfold.replay.verify.requests import Notes, changed_entry, payload_for, request_of

_SENT = {"system": "request.system", "tools": "request.tools", "settings": "settings"}
"""What is sent besides the messages, by what it is noted as."""


class Explaining:
    """``entries``: all that was recorded. ``notes``: what was sent besides the messages, then and now."""

    def __init__(self, key: str, entries: Sequence[Entry], notes: Notes, model: Model) -> None:
        self._key = key
        self._entries = entries
        self._notes = notes
        self._model = model
        self._events = {entry.seq: entry.event for entry in entries if not entry.was}
        self._erased = [entry.seq for entry in entries if entry.was]

    def is_same(self, recorded: Entry, new: Event) -> bool:
        """What was erased cannot be compared any more; nor can what was made from it."""
        event = recorded.event
        if event == new or recorded.was:
            return type(event) is type(new)
        match event, new:
            case ModelCalled(), ModelCalled():
                new = _with_name_of(new, event)
                changes: dict[str, Any] = {"params": _lasting(new, event)}
                if self._erased and self._erased[0] < recorded.seq:
                    changes |= {"request": event.request, "params": {**_plain(new), **_seen(event)}}
                if event.rules != new.rules:  # other rules may make another request: that proves nothing
                    changes |= {"request": event.request, "rules": event.rules}
                return event == msgspec.structs.replace(new, **changes)
            case Noted(name="compaction_failed"), Noted(name="compaction_failed"):
                return True  # what a summariser did is not to be repeated
        return False

    async def difference(
        self, recorded: Sequence[Entry], new: Sequence[Event], before: Moment, call: int
    ) -> Divergence | None:
        """The first, of what was and is appended at once."""
        for at in range(max(len(recorded), len(new))):
            entry = recorded[at] if at < len(recorded) else None
            event = new[at] if at < len(new) else None
            if entry is not None and event is not None and self.is_same(entry, event):
                continue
            if entry is None:
                last = recorded[-1]
                change = Change("(after it)", None, cut(_json(event)))
                return self._divergence(last, change, before, call)
            there = before.opened.then(*recorded[:at]) if at else before.opened
            return await self._explain(entry, event, Moment(before.log, before.key, there), call)
        return None

    async def _explain(self, entry: Entry, event: Event | None, before: Moment, call: int) -> Divergence:
        match entry.event, event:
            case _, Noted(name=name, data=data) if name.startswith(OURS):
                if found := self._of_the_request(name.removeprefix(OURS), data, entry):
                    asked, change = found
                    return self._divergence(asked, change, before, call + 1)
            case ModelCalled() as then, ModelCalled() as now:
                change, cause, seq = await self._of_the_call(then, now, before)
                return self._divergence(entry, change, before, call + 1, cause, seq)
            case Noted(name=name), ModelCalled() as now if name.startswith(
                OURS
            ):  # now it is not sent, or known
                for asked in self._entries[entry.seq :]:
                    if isinstance(asked.event, ModelCalled):
                        change, cause, seq = await self._of_the_call(asked.event, now, before)
                        return self._divergence(asked, change, before, call + 1, cause, seq)
        why, seq = self._find_edit(entry)
        if event is None or type(event) is not type(entry.event):
            now_kind = None if event is None else kind_name(event)
            why = why or ("" if event is None else f"now it is {cut(json_of(_json(event)))}")
            return self._divergence(
                entry, Change("type", kind_name(entry.event), now_kind), before, call, why, seq
            )
        found_change = first_change(_json(entry.event), _json(event))
        return self._divergence(entry, found_change or Change("", None, None), before, call, why, seq)

    def _find_edit(self, entry: Entry) -> tuple[str, int]:
        """The entry that is not what it was when the model was asked next, if there is one: then that is the cause."""
        for asked in self._entries[entry.seq - 1 :]:
            if isinstance(asked.event, ModelCalled):
                wrong = changed_entry(asked.event, self._events)
                return (self._is_another(wrong), wrong) if wrong else ("", 0)
        return "", 0

    def _is_another(self, seq: int) -> str:
        return f"e{seq} {kind_name(self._events[seq])} is not what it was when the model was asked"

    def _of_the_request(self, name: str, data: Json, entry: Entry) -> tuple[Entry, Change] | None:
        """What is to be sent now, against what was sent with the next request."""
        later = self._entries[entry.seq - 1 :]
        for asked in later:
            if isinstance(asked.event, ModelCalled):
                then = self._notes.get(f"{name}:{asked.event.params.get(name)}", {})
                change = first_change(then, data, _SENT.get(name, name))
                return (asked, change) if change else None
        return None

    async def _of_the_call(
        self, then: ModelCalled, now: ModelCalled, before: Moment
    ) -> tuple[Change, str, int]:
        now = _with_name_of(now, then)
        for name, field in _SENT.items():
            texts = [self._notes.get(f"{name}:{call.params.get(name)}", {}) for call in (then, now)]
            if found := first_change(texts[0], texts[1], field):
                return found, "", 0
        plain = [
            _json(msgspec.structs.replace(call, request="", params=_plain(call))) for call in (then, now)
        ]
        if found := first_change(plain[0], plain[1]):
            return found, "", 0
        if wrong := changed_entry(then, self._events):
            return Change("request", then.request, now.request), self._is_another(wrong), wrong
        request = request_of(now, await before.messages(), self._notes)
        make = payload_for(then, self._notes)
        if request is not None and make is not None and fingerprint(sent := make(request)) == then.request:
            found = first_change(sent, self._model.payload(request), "request")
            if found:
                return found, "", 0
        cause = "the entries are what they were: the code that makes requests from them is another"
        return Change("request", then.request, now.request), cause, 0

    def _divergence(
        self, entry: Entry, change: Change, before: Moment, call: int, cause: str = "", cause_seq: int = 0
    ) -> Divergence:
        return Divergence(
            chat=self._key,
            seq=entry.seq,
            kind=kind_name(entry.event),
            field=change.field,
            recorded=change.recorded,
            new=change.new,
            turn=before[outline].turns,
            call=call,
            cause=cause,
            cause_seq=cause_seq,
        )


def _json(event: Event | None) -> Any:
    return msgspec.to_builtins(event)


def _plain(call: ModelCalled) -> dict[str, Json]:
    return {name: value for name, value in call.params.items() if name != "seen"}


def _seen(call: ModelCalled) -> Mapping[str, Json]:
    return {name: value for name, value in call.params.items() if name == "seen"}


def _with_name_of(new: ModelCalled, then: ModelCalled) -> ModelCalled:
    """A model's own code is in ``__main__`` when its file is run, and elsewhere when it is imported: what it makes is compared."""
    if not ("payload" in new.params and "payload" in then.params):
        return new
    return msgspec.structs.replace(new, params={**new.params, "payload": then.params["payload"]})


def _lasting(new: ModelCalled, then: ModelCalled) -> dict[str, Json]:
    """The parameters as a recording of then would have them: there were fewer once."""
    return new.params if "seen" in then.params else _plain(new)
