"""chart: the size of the context over time, in block characters."""

from bisect import bisect_left

from chatfold.replay.inspect.sizes import Chart

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LIGHT = "░"
_SIGNS = {"compacted": "◆", "reverted": "↺", "rewound": "↶", "opened": "⇄", "switched": "⇄", "cleared": "⇄"}


def draw(chart: Chart, height: int = 1, *, marked: bool = True) -> list[str]:
    """``height`` lines of block characters, a column a bucket, highest first; and one of marks below, if there are any.

    A column is as high as the largest size in its bucket, and what is not nothing is seen; of several lines, those that
    the smallest size does not reach are lighter. Marks: ◆ compacted, ⇄ another context, ↶ rewound, ↺ reverted; of several
    in one bucket the first of these.
    """
    height = max(1, height)
    peak = max(1, chart.peak)
    columns = [(-(-one.low * 8 * height // peak), -(-one.high * 8 * height // peak)) for one in chart.buckets]
    lines = [
        "".join(_cell(low - 8 * row, high - 8 * row, height) for low, high in columns)
        for row in reversed(range(height))
    ]
    below = _marks(chart) if marked and chart.marks else ""
    return [*lines, below] if below else lines


def _cell(low: int, high: int, height: int) -> str:
    """``low``, ``high``: how many eighths of this line, and more, the sizes fill."""
    return _LIGHT if high >= 8 and low <= 0 and height > 1 else _BLOCKS[min(8, max(0, high))]


def _marks(chart: Chart) -> str:
    order = "◆⇄↶↺ "
    columns = [" "] * len(chart.buckets)
    ends = [bucket.last for bucket in chart.buckets]
    for mark in chart.marks:
        column = bisect_left(ends, mark.seq)
        if column < len(columns):
            columns[column] = min(columns[column], _SIGNS[mark.kind], key=order.index)
    return "".join(columns)
