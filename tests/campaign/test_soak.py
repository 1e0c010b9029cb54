"""A few seconds of the soak: see ``soak`` for what an hour of it shows."""

from pathlib import Path

from tests.support.processes.children import figures_of


def test_followers_see_exactly_the_log_while_writers_are_killed_and_chats_come_and_go(
    fast_folder: Path,
) -> None:
    figures = figures_of("soak", 4, 1, fast_folder)
    assert not figures.violations, figures.first
    assert figures.counted["kills"] > 5
    assert figures.counted["rolls"] > 5
    assert figures.counted["chats"] > 5
