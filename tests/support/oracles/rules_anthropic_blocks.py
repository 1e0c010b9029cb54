"""The blocks of Anthropic's messages, each by itself; where the rules come from: see ``rules_anthropic``."""

import re

from tests.support.oracles.rules_shared import (
    IMAGES,
    Kinds,
    Object,
    is_base64,
    is_in,
    is_list,
    is_text,
    is_web_url,
    need,
    need_keys,
)

_ID = re.compile(
    r"[a-zA-Z0-9_-]+"
)  # The API says: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"

# "Define tools" (https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools): "Must match the regex
# `^[a-zA-Z0-9_-]{1,64}$`", and so the description for tool_use. The API of today takes 128 for definitions and 200
# for tool_use; Amazon Bedrock still says "String should have at most 64 characters".
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_CACHE = frozenset({"cache_control"})


def need_said(index: int, text: object) -> None:
    # The API says: "messages: text content blocks must be non-empty", and "must contain non-whitespace text"
    said = type(text) is str and text.strip() != ""
    need(said, index, "a text is more than white space", text)


def need_text(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "text"}, _CACHE)
    need_said(index, block["text"])


def _thinking(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "thinking", "signature"})
    # The types say: `thinking`, `signature` "exactly as returned by the API in a previous response". The text may be
    # empty ("Thinking", https://platform.claude.com/docs/en/build-with-claude/thinking#controlling-thinking-display);
    # the signature may not: "Invalid `signature` in `thinking` block".
    need(is_text(block["thinking"]), index, "a thought is a text, empty or not", block)
    need(is_text(block["signature"], 1), index, "a thought is signed", block)


def _redacted(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "data"})
    # The types say: "Opaque and encrypted; pass it back unchanged."
    need(is_text(block["data"], 1), index, "a redacted thought has its data", block)


def _use(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "id", "name", "input"}, _CACHE)
    name = block["name"]
    _need_id(index, block["id"])
    fits = type(name) is str and _NAME.fullmatch(name) is not None
    need(fits, index, "the name of a tool is 1 to 64 letters, digits, _ and -", name)
    # The API says: "tool_use.input: Input should be a valid dictionary"
    need(type(block["input"]) is dict, index, "the input of a tool is an object", block["input"])


def _need_id(index: int, name: object) -> None:
    fits = type(name) is str and _ID.fullmatch(name) is not None
    need(fits, index, "the id of a use is letters, digits, _ and -", name)


def _result(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "tool_use_id"}, {"content", "is_error"} | _CACHE)
    _need_id(index, block["tool_use_id"])
    failed = block.get("is_error", False)
    need(type(failed) is bool, index, "is_error is true or false", failed)
    if "content" not in block:
        return  # "Handle tool calls": the content is optional
    content = block["content"]
    if type(content) is str:
        # An empty one was taken for no result at all (https://github.com/zed-industries/zed, crates/assistant2), and
        # is refused by Amazon Bedrock: "The content field in the Message object at messages.N is empty."
        need(content.strip() != "", index, "the content of a result is not blank, or not there", content)
        return
    need(is_list(content), index, "the content of a result is a text or blocks, or not there", content)
    for inner in content:
        kind = inner.get("type") if type(inner) is dict else None
        # "Handle tool calls": "These content blocks can use the `text`, `image`, or `document` types."
        need(is_in(kind, RESULT), index, "a result is made of texts, images and documents", inner)
        # The API says: "all content must be type `text` if `is_error` is true"
        need(kind == "text" or not failed, index, "the result of a failure is made of texts", inner)
        RESULT[str(kind)](index, inner)


def _image(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "source"}, _CACHE)
    source = block["source"]
    if _fetched(index, source):
        return
    need_keys(index, source, {"type", "media_type", "data"})
    # "Vision" (https://platform.claude.com/docs/en/build-with-claude/vision), and Base64ImageSourceParam
    kind, media_type = source["type"], source["media_type"]
    need(kind == "base64" and is_in(media_type, IMAGES), index, "an image is base64 of a known type", source)
    need(is_base64(source["data"]), index, "the data of an image is base64, without data:", source)


def _document(index: int, block: Object) -> None:
    need_keys(index, block, {"type", "source"}, {"title", "context", "citations"} | _CACHE)
    title = block.get("title")
    need(
        title is None or is_text(title, 1, 500), index, "a title has 1 to 500 characters", title
    )  # seen in practice
    source = block["source"]
    if _fetched(index, source):
        return
    need_keys(index, source, {"type", "media_type", "data"})
    kind = (source["type"], source["media_type"])
    # Base64PDFSourceParam and PlainTextSourceParam: no other document has a type
    known = kind in (("base64", "application/pdf"), ("text", "text/plain"))
    need(known, index, "a document is base64 of a PDF or a plain text", source)
    if source["type"] == "base64":
        need(is_base64(source["data"]), index, "the data of a PDF is base64, without data:", source)
    else:
        need_said(index, source["data"])  # seen in practice


def _fetched(index: int, source: object) -> bool:
    """Whether this is a source that the API fetches, and then a good one."""
    kind = source.get("type") if type(source) is dict else None
    if kind == "url":
        need_keys(index, source, {"type", "url"})
        url = source["url"]  # type: ignore[index]
        need(is_web_url(url), index, "a URL is http or https", url)  # URLImageSourceParam, URLPDFSourceParam
    if kind == "file":
        need_keys(index, source, {"type", "file_id"})
        name = source["file_id"]  # type: ignore[index]
        need(is_text(name, 1), index, "the id of a file is not empty", name)  # FileImageSourceParam
    return kind in ("url", "file")


RESULT: Kinds = {"text": need_text, "image": _image, "document": _document}
USER: Kinds = {**RESULT, "tool_result": _result}
ASSISTANT: Kinds = {
    "text": need_text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _use,
}
