"""What several tests share: chats to look at, oracles to compare with, disks and processes that break."""
