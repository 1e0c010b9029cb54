"""chatfold keeps the chats of LLM agents: every chat an append-only log, everything else a fold over it."""
