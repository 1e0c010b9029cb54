"""What an MCP server answers to a call, as parts.

text, or a resource's text      Text
image, audio, a resource's bytes    File
a link to a resource            Text: its name, where it is, and what it is
structured content              Data, unless a text says the same
"""

import base64
from collections.abc import Iterable
from typing import Any

import msgspec
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from chatfold.eventlog import Data, File, Json, Part, Text


def parts_of(result: CallToolResult) -> tuple[Part, ...]:
    parts = [_part(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not _says(parts, structured):
        parts.append(Data("json", structured))
    return tuple(parts)


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent(text=text) | EmbeddedResource(resource=TextResourceContents(text=text)):
            return Text(text)
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return File(kind, base64.b64decode(data))
        case EmbeddedResource(resource=BlobResourceContents(blob=data, mime_type=kind, uri=uri)):
            return File(kind or "application/octet-stream", base64.b64decode(data), name=uri)
        case ResourceLink():
            about = (block.description, block.mime_type)
            return Text("\n".join([f"{block.title or block.name}: {block.uri}", *filter(None, about)]))
    return Text(str(block))


def _says(parts: Iterable[Part], structured: Json) -> bool:
    """Servers put what is no object into one, as its ``result``, and a list into one text an item."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    values = [_decoded(text) for text in texts]
    said: list[Any] = [*texts, *values, texts, values]
    wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    return structured in said or (wrapped and structured["result"] in said)


def _decoded(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
