"""What an embedder's verbs refuse, each without a trace in the log.

ChatfoldError
├── NoSuchContext      no context of this id, or none that matches the query
├── OtherHistory       what a client sent has nothing in common with the chat
├── SummaryFailed      the summariser raised, took too long, or gave nothing usable
└── PromptTooLarge     even after compaction the prompt is larger than the budget: ``tokens`` against ``budget``
"""

from chatfold.eventlog import ChatfoldError


class NoSuchContext(ChatfoldError):
    """The chat has no context of this id, or none that fits the query."""

    next_step = "chat.contexts() shows what there is"


class OtherHistory(ChatfoldError):
    """What a client sent has nothing in common with the chat."""

    next_step = "Record it in a chat, or a context, of its own"


class SummaryFailed(ChatfoldError):
    """The summariser raised, took too long, or gave nothing that can be used."""

    next_step = "Nothing was compacted; try again, or with another summariser"


class PromptTooLarge(ChatfoldError):
    """The newest messages alone are ``tokens`` large, ``budget`` was allowed."""

    next_step = "Cut the newest message, or allow more"

    def __init__(self, tokens: int, budget: int, *, chat: str) -> None:
        self.tokens = tokens
        self.budget = budget
        super().__init__(f"the prompt needs about {tokens} tokens, {budget} are allowed", chat=chat)
