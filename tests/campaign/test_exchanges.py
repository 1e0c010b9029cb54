"""Some of what ``exchanges`` does, on every run: no read and no repair takes anything of another chat for this one's, and repair
gives up nothing of the chat's own."""

from pathlib import Path

from tests.campaign.exchanges import campaign


def test_whatever_two_chats_exchange_each_reads_and_keeps_its_own(fast_folder: Path) -> None:
    figures = campaign(60, 3, fast_folder)
    assert figures.tried == 60
    assert figures.violations == 0, figures.first
    assert min(figures.counted[what] for what in ("repaired", "lost", "told")) > 10
