"""One of everything that messages of each provider may hold, to be mutated."""

from typing import Any

OPENAI: list[Any] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "name": "ann", "content": [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk=", "filename": "a.txt"}},
    ]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "text"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "a b"}]},
    {"role": "assistant", "content": "done", "refusal": None, "function_call": {"name": "f", "arguments": "{"}},
    {"role": "function", "name": "f", "content": "1"},
]  # fmt: skip
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "let me see", "cache_control": {"type": "ephemeral"}},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
        {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []},
    ]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "is_error": False, "content": [{"type": "text", "text": "a"}]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "document", "source": {"type": "url", "url": "https://x"}, "title": "d"},
    ]},
]  # fmt: skip
UI: list[Any] = [
    {"id": "u1", "role": "user", "metadata": {"at": 1}, "parts": [
        {"type": "text", "text": "look"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk=", "filename": "a.png"},
    ]},
    {"id": "a1", "role": "assistant", "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm", "state": "done"},
        {"type": "tool-read", "toolCallId": "c1", "state": "output-available", "input": {"path": "a"}, "output": {"ok": 1}},
        {"type": "dynamic-tool", "toolName": "x", "toolCallId": "c2", "state": "output-error", "input": {}, "errorText": "no"},
        {"type": "data-weather", "id": "w", "data": {"t": 21}},
        {"type": "source-url", "sourceId": "s", "url": "https://x", "title": "x"},
        {"type": "text", "text": "done", "providerMetadata": {"p": {"k": 1}}},
    ]},
]  # fmt: skip
