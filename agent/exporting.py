"""Exporting: a chat as a file, whole or not at all.

jsonl         the log, lossless: what ``Store.import_chat`` takes
openai, openai-responses, anthropic      what the model is sent, as the API takes it
ui, ui-jsonl  the active context as messages of the AI SDK: a list, or a line each
conversation  the whole log as messages and events, a line each: what document 001 describes
otel          the whole log as OpenTelemetry spans, OTLP JSON by the conventions for GenAI
markdown      everything that happened, for people to read
"""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

Form: TypeAlias = Literal[
    "jsonl",
    "openai",
    "openai-responses",
    "anthropic",
    "ui",
    "ui-jsonl",
    "conversation",
    "otel",
    "markdown",
]

_CHUNK = 1 << 20
_HEADER, _HEADER_SIZE = b'{"chatfold":', 12


async def read_chunks(path: Path | str) -> AsyncGenerator[bytes]:
    import aiofiles  # noqa: PLC0415 (not for those who never import or export)

    async with aiofiles.open(path, "rb") as file:
        while data := await file.read(_CHUNK):
            yield data


def is_export(path: Path) -> bool:
    """Is this a file that ``export`` wrote, losslessly?"""
    with path.open("rb") as file:
        return file.read(_HEADER_SIZE).startswith(_HEADER)


def encode_lines(values: list[Any]) -> bytes:
    return msgspec.json.Encoder().encode_lines(values)


async def write_file(path: Path, chunks: AsyncGenerator[bytes]) -> None:
    """It appears, or takes another's place, when all of it is on the medium. Nobody else may read it."""
    import aiofiles  # noqa: PLC0415

    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    if path.is_dir():  # noqa: ASYNC240 (once)
        raise IsADirectoryError(errno.EISDIR, "a folder is there, and no file can take its place", str(path))
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        async with aclosing(chunks), aiofiles.open(temporary, "xb", opener=_private) as file:
            async for data in chunks:
                await file.write(data)
            await file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        await asyncio.to_thread(temporary.replace, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
