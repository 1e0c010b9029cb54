"""The formats that are known, in the order in which a file is asked whether it is one of them."""

from chatfold.importers import (
    aider,
    claude_code,
    codex,
    conversation,
    gemini,
    langgraph,
    lists,
    llm,
    openai_agents,
    opencode,
    pi,
    pydantic_ai,
    ship,
)
from chatfold.importers.items import Format

FORMATS: tuple[Format, ...] = (
    *codex.FORMATS,
    *claude_code.FORMATS,
    *pi.FORMATS,
    *openai_agents.FORMATS,
    *llm.FORMATS,
    *gemini.FORMATS,
    *opencode.FORMATS,
    *langgraph.FORMATS,
    *pydantic_ai.FORMATS,
    *aider.FORMATS,
    *conversation.FORMATS,
    *ship.FORMATS,
    *lists.FORMATS,
)


def known_formats() -> str:
    """For an error: what can be imported."""
    return "; ".join(one.title for one in FORMATS)
