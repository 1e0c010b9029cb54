"""Independent checkers of what providers take as messages: what the tests of the projections are judged by.

Each raises an AssertionError that names the index of the message, the rule that is broken and the value that breaks
it. Where a rule comes from stands next to it; "seen in practice" marks those for which no source was found.
"""

from tests.support.oracles.rules_anthropic import check_anthropic
from tests.support.oracles.rules_openai import check_openai_chat
from tests.support.oracles.rules_responses import check_openai_responses
from tests.support.oracles.rules_types import (
    anthropic_types_accept,
    openai_types_accept,
    responses_types_accept,
)
from tests.support.oracles.rules_ui import check_ui_messages

__all__ = [
    "anthropic_types_accept",
    "check_anthropic",
    "check_openai_chat",
    "check_openai_responses",
    "check_ui_messages",
    "openai_types_accept",
    "responses_types_accept",
]
