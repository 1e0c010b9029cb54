"""Some of everything that ``corruption`` does, on every run: nothing wrong is ever read, and damage is told with its place."""

from pathlib import Path

import pytest

from chatfold.eventlog import Entry
from tests.campaign.corruption import campaign
from tests.support.damage.intact import Intact, small
from tests.support.judges import judging_reads
from tests.support.judges.judging_reads import Judge, Wrong


def test_whatever_is_damaged_nothing_wrong_is_read(fast_folder: Path) -> None:
    figures = campaign(1_000, 2, fast_folder)
    assert (figures.violations, figures.first) == (0, "")
    found = figures.counted
    assert found["wrong values"] == 0
    assert found["flips"] == 1_000
    assert found["flips detected"] > 300
    assert found["flips harmless"] > 50  # the witness, caches, and what no reader needs
    assert min(found[what] for what in ("truncations", "line faults", "blocks", "file faults")) >= 30
    assert min(found[what] for what in ("read in every way", "written after", "refused to write after")) > 0


# --- the judge is none that lets everything pass ------------------------------------------------------------


@pytest.fixture
def intact(fast_folder: Path) -> Intact:
    return small(fast_folder / "small" / "store")


@pytest.mark.smoke
async def test_a_reader_that_alters_a_value_is_found_out(
    intact: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Judge(intact).quickly()
    right = intact.entries

    def altered(*_: object) -> list[Entry]:
        return [*right[:3], right[2], *right[4:]]

    monkeypatch.setattr(judging_reads, "scan", altered)
    with pytest.raises(Wrong, match="instead of"):
        await Judge(intact).quickly()


@pytest.mark.smoke
async def test_a_reader_that_leaves_out_the_end_is_found_out(
    intact: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging_reads, "scan", lambda *_: intact.entries[:-1])
    with pytest.raises(Wrong, match="was durable"):
        await Judge(intact).quickly()
