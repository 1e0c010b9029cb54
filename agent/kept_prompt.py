"""The prompt that a chat keeps: it goes on with what came since, and is not built anew for each question.

It is believed only while the active context is the very same value as then: a compaction, a switch or a rewind makes another.
What was erased is in no prompt that is kept, since the chat is then opened anew, with nothing kept.
"""

from chatfold.agent.views import Opened
from chatfold.projections import View, contexts
from chatfold.projections.prompt import Prompt


class KeptPrompt:
    """That of a chat and its moments, at the entry that was asked for last."""

    def __init__(self) -> None:
        self._kept: tuple[View, Prompt] | None = None

    def at(self, opened: Opened) -> Prompt | None:
        """The prompt of this view, if the one that is kept leads there."""
        if self._kept is None:
            return None
        (view, prompt), new = self._kept, opened.recent
        then, now = view[contexts], opened.view[contexts]
        if then.active is not now.active or then.since != now.since or view.seq > opened.view.seq:
            return None
        if view.seq < opened.view.seq:
            if not new or new[0].seq > view.seq + 1:
                return None
            prompt = prompt.then(new[view.seq + 1 - new[0].seq :])
            self.keep(opened.view, prompt)
        return prompt

    def keep(self, view: View, prompt: Prompt) -> None:
        self._kept = view, prompt
