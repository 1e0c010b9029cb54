"""Chats to debug, and the command in a process or on a terminal."""
