"""importers: the chats that other tools keep, as chats of a store. Each keeps its times, ids, models, usage, calls and failures.

    async for report in import_paths(store, [Path.home() / ".codex"]): ...      # what ``chatfold import`` does
    async for report in watch(store, known_homes()): ...                        # what ``chatfold watch`` does

Importing again brings what is new. Nothing is read twice into a chat, a file that was rewritten takes its chat back to where
they part, and what cannot be read is named with its file, line and byte.

Where to look. A format is a module that turns records into items, and nothing else:

    codex           rollouts of the Codex CLI, of every generation: codex_rollouts (their files), codex_thread (their records)
    claude_code     sessions of Claude Code, and of subagents: claude_tree (their lines)
    gemini          sessions of the Gemini CLI: operations, or a list
    opencode        sessions of opencode: a database, and the files before it
    pi              sessions of pi: trees of entries
    openai_agents   databases of the OpenAI Agents SDK; branches
    llm             logs of llm, of both schemas
    langgraph       threads in checkpoints of LangGraph
    pydantic_ai     message histories of Pydantic AI
    aider           chat histories of aider
    ship            .ship folders, of the generations that the documents describe
    conversation    conversation JSONL
    lists           provider messages: OpenAI, Anthropic, the AI SDK's UIMessage

What they have in common:

    items           Item, Session, Format: the interface of a format
    formats         which there are
    head, lines     a file's beginning, by which it is recognised; files of JSON lines; times: as tools write them
    database        SQLite that is only looked at; databases: sessions that are kept in one
    finding         the files of a folder, and what they are; where tools keep theirs
    writing         from items to entries: what is new, what was rewritten, what is shared with another chat
    importing       import_paths: all of it together
    watching        watch: the same as it happens
    ledger          which files have nothing new
"""

from chatfold.importers.finding import known_homes
from chatfold.importers.importing import Report, import_paths
from chatfold.importers.items import Format, Home, Item, Problem, Session, UnknownFormat
from chatfold.importers.watching import watch

__all__ = [
    "Format",
    "Home",
    "Item",
    "Problem",
    "Report",
    "Session",
    "UnknownFormat",
    "import_paths",
    "known_homes",
    "watch",
]
