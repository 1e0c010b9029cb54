"""Ways to damage a chat's files and messages, and chats to damage."""
