"""Curves as SVG: a pure function, no dependency, readable on light and on dark pages."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.measure import Row, number

Curves = Mapping[str, Sequence[tuple[float, float]]]

_WIDTH, _HEIGHT = 1040, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 440, 50, 50  # margins; the names stand at the right
_LINE = 15  # pixels between two names
_HUES = (215, 30, 130, 280, 0, 180, 60, 320, 100, 250, 20, 160, 300)
_STYLE = """
svg { background: #fff; font: 12px system-ui, sans-serif; }
text { fill: #222; } .faint { stroke: #ddd; } .title { font-size: 15px; font-weight: 600; }
.peer { stroke: hsl(var(--hue) 45% 45%); fill: hsl(var(--hue) 45% 38%); }
.ours { stroke: #d6336c; fill: #d6336c; }
polyline { fill: none !important; stroke-width: 1.5; } polyline.ours { stroke-width: 3.5; }
text.ours { font-weight: 700; stroke: none; } text.peer, circle { stroke: none; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181d; } text { fill: #ddd; } .faint { stroke: #33363d; }
  .peer { stroke: hsl(var(--hue) 55% 62%); fill: hsl(var(--hue) 60% 70%); } .ours { stroke: #ff6b9d; fill: #ff6b9d; }
}
"""


_TITLES = {
    "append": "One durable turn more",
    "open": "Cold open and one durable turn",
    "messages": "Cold open and the messages for the next call",
    "fork": "A fork of the whole chat",
    "disk": "Bytes on disk, a message",
}


def pictures(rows: Sequence[Row], ours: str) -> dict[str, str]:
    """One for each set of curves that the rows are points of."""
    found: dict[str, dict[str, dict[float, float]]] = {}
    units = {}
    for row in rows:
        if row.picture and row.value is not None:
            curves = found.setdefault(row.picture, {ours: {}})
            curves[ours][row.size] = row.value
            if row.peer is not None:
                curves.setdefault(row.against, {})[row.size] = row.peer
            units[row.picture] = row.unit
    return {
        name: picture(
            _TITLES[name], units[name], {of: sorted(one.items()) for of, one in curves.items()}, ours
        )
        for name, curves in found.items()
    }


def picture(title: str, unit: str, curves: Curves, ours: str) -> str:
    """Both axes are logarithmic: a straight line that climbs one decade a decade is a cost that grows with the history."""
    drawn = {name: points for name, points in curves.items() if points}
    across = _Axis([x for points in drawn.values() for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = _Axis([y for points in drawn.values() for _, y in points], _HEIGHT - _BOTTOM, _TOP)
    names = sorted(drawn, key=lambda name: name == ours)  # ours on top of the others
    hues = {name: _HUES[at % len(_HUES)] for at, name in enumerate(drawn)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>',
        *_grid(across, up, unit),
    ]
    longest = max(x for points in drawn.values() for x, _ in points)
    heights = _apart({name: up(points[-1][1]) for name, points in drawn.items()})
    for name in names:
        kind = 'class="ours"' if name == ours else f'class="peer" style="--hue:{hues[name]}"'
        places = [(across(x), up(y)) for x, y in drawn[name]]
        parts.append(f'<polyline {kind} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
        parts += [f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
        size, figure = drawn[name][-1]
        ends = "" if size == longest else f" at {number(size)}"
        last = f"{name}: {number(figure)} {unit}{ends}"
        parts.append(
            f'<text {kind} x="{_WIDTH - _RIGHT + 12}" y="{heights[name] + 4:.1f}">{escape(last)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """From figures to pixels, in whole decades."""

    def __init__(self, figures: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(figures)) + 1e-9)
        self.high = max(math.ceil(math.log10(max(figures)) - 1e-9), self.low + 1)
        self.start, self.end = start, end

    def __call__(self, figure: float) -> float:
        part = (math.log10(figure) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    @property
    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _grid(across: _Axis, up: _Axis, unit: str) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for figure in across.decades:
        x = across(figure)
        parts.append(f'<line class="faint" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{number(figure)}</text>')
    for figure in up.decades:
        y = up(figure)
        parts.append(f'<line class="faint" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(figure)}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">messages in the chat</text>')
    parts.append(f'<text x="{_LEFT - 8}" y="{_TOP - 10}" text-anchor="end">{escape(unit)}</text>')
    return parts


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Where the names stand: next to their curves, but not on each other."""
    placed: dict[str, float] = {}
    lowest = -math.inf
    for name in sorted(heights, key=lambda name: heights[name]):
        lowest = max(heights[name], lowest + _LINE)
        placed[name] = lowest
    over = max(0.0, lowest - (_HEIGHT - 20))
    return {name: height - over for name, height in placed.items()}
