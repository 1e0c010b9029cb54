"""Some of what ``exchanges`` does, on every run: repair takes nothing of another chat, and gives up nothing of the chat's own."""

from pathlib import Path

from tests.campaign.exchanges import campaign


def test_whatever_two_chats_exchange_repair_keeps_each_ones_own(fast_folder: Path) -> None:
    figures = campaign(60, 3, fast_folder)
    assert figures.tried == 60
    assert figures.violations == figures.counted["wrong reads"], figures.first
    assert min(figures.counted[what] for what in ("repaired", "lost", "told")) > 10
