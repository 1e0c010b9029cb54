"""What the types of the packages ``openai`` and ``anthropic`` say of the messages that the tests make.

The types are TypedDicts. pydantic reads them; what it makes of them is then sharpened: no keys that a type does not
have, arrays read to their end (an ``Iterable`` would be read when someone asks for its members, so never), and no
dicts where the type wants an object of a class of the package. To make a validator takes a second or so, once.
"""

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

from tests.support.oracles.rules_shared import Object


def openai_types_accept(messages: list[Object]) -> None:
    """Raises an AssertionError if one is not a ``ChatCompletionMessageParam``."""
    _accept(_chat_message(), messages)


def responses_types_accept(items: list[Object]) -> None:
    """Raises an AssertionError if one is not a ``ResponseInputItemParam``."""
    _accept(_response_item(), items)


def anthropic_types_accept(request: Object) -> None:
    """Raises an AssertionError if a message is not a ``MessageParam``, or a block of ``system`` no TextBlockParam."""
    _accept(_text_block(), request.get("system", []))
    _accept(_message(), request.get("messages"))


@cache
def _chat_message() -> SchemaValidator:
    from openai.types.chat import ChatCompletionMessageParam

    return _validator(ChatCompletionMessageParam)


@cache
def _response_item() -> SchemaValidator:
    from openai.types.responses import ResponseInputItemParam

    return _validator(ResponseInputItemParam)


@cache
def _message() -> SchemaValidator:
    from anthropic.types import MessageParam

    return _validator(MessageParam)


@cache
def _text_block() -> SchemaValidator:
    from anthropic.types import TextBlockParam

    return _validator(TextBlockParam)


def _accept(validator: SchemaValidator, messages: object) -> None:
    assert type(messages) is list, f"message 0: they are an array: {messages!r:.300}"
    for index, message in enumerate(messages):
        try:
            validator.validate_python(message, strict=True)
        except ValidationError as error:
            raise AssertionError(f"message {index}: it is of its type: {error}") from error


def _validator(of: Any) -> SchemaValidator:
    return SchemaValidator(_sharpened(TypeAdapter(of).core_schema))


def _sharpened(schema: Any) -> Any:
    if type(schema) in (list, tuple):
        return type(schema)(_sharpened(inner) for inner in schema)
    if type(schema) is not dict:
        return schema
    sharp = {key: _sharpened(inner) for key, inner in schema.items()}
    if sharp.get("type") == "generator":
        sharp["type"] = "list"
    elif sharp.get("type") == "typed-dict":
        sharp["extra_behavior"] = "forbid"
    elif sharp.get("type") == "model":
        return {key: sharp[key] for key in ("cls", "ref") if key in sharp} | {"type": "is-instance"}
    return sharp
