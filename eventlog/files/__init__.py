"""Chats as files: one chat is one folder of readable JSON lines, for any number of processes on one machine."""
