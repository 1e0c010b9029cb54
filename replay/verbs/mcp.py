"""mcp: a store as an MCP server."""

from chatfold.replay.command import store_of, verb
from chatfold.replay.output import Out


@verb("chatfold mcp")
async def mcp(out: Out, store: str | None) -> None:  # noqa: ARG001 (its output is the protocol's)
    """Serve the store to any agent as an MCP server, over standard input and output, until the agent hangs up. It only reads.

    Its tools list chats, search them, read what the model sees at a point, messages and entries, and say why something was forgotten.
    Without a key they take the chat of the latest activity. In a client's configuration: "command": "chatfold", "args": ["mcp", "--store", "…"].
    """
    try:
        from chatfold.replay.mcp_server import make_server  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise ImportError(f"the server needs {error.name}: pip install 'chatfold[mcp]'") from None

    async with store_of(store) as chats:
        await make_server(chats).run_stdio_async()
