"""Which of the lines that verify are this chat's? Pure: it knows of no file.

A line of another chat verifies, too. What tells the two apart is the chain: a line's ``prev`` is the link of the line
before. So everything that is linked to a line of this chat is this chat's, and the question is where to begin, and what to
think of lines that nothing links to it, because what stood in between is gone.

- **The trunk** is what is linked to the entry that ``head`` names. If no line is, it is the chain from entry 1; but where another
  chain excludes it, the one that needs fewer files to be wrong; and none, if that does not tell.
- A line that does not verify is lost, but still says between which links it stood. It joins what it stood between: no
  accident makes two links of 64 bits fit. So does the header of a segment that holds lines of the trunk, if it leads to entry 1.
- **The ends**: lines linked to entry 1, or up to the last entry, that a hole separates from the trunk. They stay if nothing
  contradicts them, and if they are not just the content of one file, which may have been exchanged as a whole.
- **All else is unproven**: it contradicts the trunk, or lies between two holes.

Two chains contradict each other if they have different links at one seq. What nothing can tell: a beginning of another chat,
and a hole after it that left no trace, in one file with lines of this chat.
"""

from collections.abc import Iterator

import msgspec

from chatfold.eventlog.events import Head
from chatfold.eventlog.files.survey import SurveyedLine
from chatfold.eventlog.files.watermark import Watermark

_Point = tuple[int, bytes]  # (seq, link): names the history up to there
_START: _Point = (0, Head().link.encode())


class Evidence(msgspec.Struct):
    """All there is in a chat's folder. Files that were set aside have lines, and are no witnesses."""

    watermark: Watermark | None
    lines: dict[int, list[SurveyedLine]] = {}
    ends: dict[bytes, bytes] = {}  # link -> prev, of lines that do not verify
    heads: dict[int, Head] = {}  # by file
    firsts: dict[int, int] = {}  # the first seqs in the names of the segments, by file
    broken: set[int] = set()  # files that are visibly not as they were written
    live: set[int] = set()  # files that were not set aside

    def find_misplaced(self) -> set[int]:
        """Segments that have another name than their header says."""
        names, heads = self.firsts, self.heads
        return {file for file in names if file in heads and heads[file].seq + 1 != names[file]}


class Chain(msgspec.Struct):
    lines: dict[int, SurveyedLine] = {}  # by seq
    links: dict[int, bytes] = {}  # by seq, also of lines that are gone

    def add(self, other: "Chain") -> None:
        self.lines.update(other.lines)
        self.links.update(other.links)

    def contradicts(self, links: dict[int, bytes]) -> bool:
        few, many = sorted((self.links, links), key=len)
        return any(many.get(seq, link) != link for seq, link in few.items())


def find_own_lines(evidence: Evidence) -> Chain:
    """The lines that are this chat's, and the links that are known of those that are gone."""
    links = _Links(evidence)
    own = _find_trunk(links, evidence)
    if own.lines:
        ends = [*_find_beginnings(links, own), _find_last_lines(links, evidence)]
        for end in ends:
            if end.lines and _is_believed(end, own, links, evidence):
                own.add(end)
    return own


class _Links:
    """All lines as a graph, whose nodes are points."""

    def __init__(self, evidence: Evidence) -> None:
        self._ends, self._heads = evidence.ends, evidence.heads
        self._ends_after = {prev: link for link, prev in evidence.ends.items()}
        self.before: dict[_Point, SurveyedLine] = {}  # the line that ends there
        self.after: dict[_Point, list[SurveyedLine]] = {}  # those that start there
        self.live, self.misplaced = evidence.live, evidence.find_misplaced()
        for seq in sorted(evidence.lines):
            for line in evidence.lines[seq]:
                self._add(line)
        self.heights: dict[_Point, int] = {}  # how many lines follow there
        for point in sorted(self.before, reverse=True):
            line = self.before[point]
            height = 1 + self.heights.get(point, 0)
            start = (line.seq - 1, line.prev)
            self.heights[start] = max(height, self.heights.get(start, 0))

    def _add(self, line: SurveyedLine) -> None:
        point = (line.seq, line.link)
        known = self.before.get(point)
        if known is None:
            self.before[point] = line
            self.after.setdefault((line.seq - 1, line.prev), []).append(line)
        elif line.erased and not known.erased:  # what was erased or given up stays so
            self.before[point] = line
            same = self.after[(known.seq - 1, known.prev)]
            same[same.index(known)] = line

    def is_known(self, point: _Point) -> bool:
        return point in self.before or point[1] in self._ends

    def down(self, point: _Point) -> Chain:
        """What is linked to this point, and before it."""
        seq, link = point
        found, used = Chain({}, {seq: link}), set[bytes]()
        while seq > 0:
            line = self.before.get((seq, link))
            if line is not None:
                found.lines[seq] = line
                link = line.prev
            elif link in self._ends and link not in used:
                used.add(link)
                link = self._ends[link]
            else:
                break
            seq -= 1
            found.links[seq] = link
        return found

    def before_header_of(self, chain: Chain) -> Chain:
        """What leads from entry 1 to the header of the segment in which the chain starts."""
        line = chain.lines.get(min(chain.lines, default=0))
        head = None if line is None else self._heads.get(line.file)
        if head is None or head.seq in chain.links:
            return Chain()
        found = self.down((head.seq, head.link.encode()))
        return found if found.links.get(0) == _START[1] else Chain()

    def up(self, point: _Point) -> Chain:
        """What follows this point. Where several lines do, the one in a file of the right name, then the one that most
        lines follow; none, if that does not tell."""
        found = Chain({}, {point[0]: point[1]})
        while True:
            options = self.after.get(point, [])
            if not options:
                point = self._over_the_end(point)
                options = self.after.get(point, [])
                if not options:
                    return found
                found.links[point[0]] = point[1]
            ranks = [self._rank(line) for line in options]
            if ranks.count(max(ranks)) > 1:
                return found
            line = options[ranks.index(max(ranks))]
            point = (line.seq, line.link)
            found.lines[line.seq] = line
            found.links[line.seq] = line.link

    def _rank(self, line: SurveyedLine) -> tuple[bool, int]:
        return line.file not in self.misplaced, self.heights.get((line.seq, line.link), 0)

    def _over_the_end(self, point: _Point) -> _Point:
        """The point after lines that are gone, but whose ends still say what they stood between."""
        seq, link = point
        used = set[bytes]()
        while (seq, link) not in self.after and link in self._ends_after and link not in used:
            used.add(link)
            seq, link = seq + 1, self._ends_after[link]
        return seq, link

    def tops(self) -> list[_Point]:
        """Where a chain ends, the highest seq first."""
        return sorted((point for point in self.before if point not in self.after), reverse=True)

    def files(self, chain: Chain) -> set[int]:
        return {line.file for line in chain.lines.values()} & self.live


def _find_trunk(links: _Links, evidence: Evidence) -> Chain:
    watermark = evidence.watermark
    durable = None if watermark is None else (watermark.seq, watermark.link.encode())
    if durable is not None and links.is_known(durable):
        trunk = links.down(durable)
        trunk.add(links.before_header_of(trunk))
        trunk.add(links.up(durable))
        return trunk
    beginning = links.up(_START)
    others = [links.down(top) for top in links.tops()[:_MOST_TOPS]]
    if (
        not beginning.lines
    ):  # neither the entry that head names is there nor entry 1: sure is only what stands alone
        return others[0] if len(others) == 1 and not links.misplaced else Chain()
    rivals = [chain for chain in others if chain.contradicts(beginning.links)]
    if not rivals:
        return beginning
    rival = max(rivals, key=_length)
    if_beginning = len(links.files(rival)) + _count_doubts(beginning, links, evidence)
    if_rival = len(links.files(beginning)) + _count_doubts(rival, links, evidence)
    if if_beginning == if_rival:
        return Chain()
    return beginning if if_beginning < if_rival else rival


_MOST_TOPS = 64  # of the chains that are compared: accidents leave few, and each may be as long as the log


def _length(chain: Chain) -> int:
    return len(chain.lines)


def _count_doubts(chain: Chain, links: _Links, evidence: Evidence) -> int:
    """What else must be wrong, if this is the chat's chain: names of files, and ``head``, or more files than are there."""
    doubts = len(links.files(chain) & links.misplaced)
    watermark, last = evidence.watermark, max(chain.lines)
    if watermark is None:
        return doubts
    link = watermark.link.encode()
    if watermark.seq <= last:
        return doubts + (chain.links.get(watermark.seq, link) != link)
    beyond = (line.file for point, line in links.before.items() if point[0] > last)
    others = [*beyond, *(file for file, first in evidence.firsts.items() if first > last)]
    return doubts + (not any(file in links.live for file in others))


def _find_beginnings(links: _Links, own: Chain) -> list[Chain]:
    """What follows entry 0, or a line before a hole of the trunk, as far as it is linked."""
    own.links.setdefault(*_START)
    last = max(own.lines)
    edges = [seq for seq in own.links if seq + 1 not in own.links and seq < last]
    return [links.up((seq, own.links[seq])) for seq in edges]


def _find_last_lines(links: _Links, evidence: Evidence) -> Chain:
    """What the last file ends with, if nothing says where the log ended."""
    live = [line for line in links.before.values() if line.file in links.live]
    last = max(live, key=lambda line: (line.file, line.offset), default=None)
    if last is None or evidence.watermark is not None:
        return Chain()
    return links.down((last.seq, last.link))


def _is_believed(end: Chain, own: Chain, links: _Links, evidence: Evidence) -> bool:
    files = links.files(end)
    if end.contradicts(own.links) or not files:
        return False
    if len(files) == 1 and max(end.lines) + 1 not in evidence.firsts.values() and not files & evidence.broken:
        beside = (line for line in links.before.values() if line.file in files and line.seq not in end.lines)
        if not any(beside):
            return False
    rivals = [run for run in _find_runs(links, own, end) if run.contradicts(end.links)]
    # A rival that nothing links to the trunk needs a file more to be wrong: the one with the hole after it.
    return all(len(links.files(rival)) <= len(files) for rival in rivals)


def _find_runs(links: _Links, own: Chain, end: Chain) -> Iterator[Chain]:
    """What is in neither chain, and does not contradict the first."""
    rest = {
        point: line
        for point, line in links.before.items()
        if line.file in links.live and own.links.get(point[0]) != point[1] != end.links.get(point[0])
    }
    for top in sorted(rest, reverse=True):
        point = top
        run = Chain({}, {point[0]: point[1]})
        while (line := rest.pop(point, None)) is not None:
            run.lines[point[0]] = line
            point = (line.seq - 1, line.prev)
            run.links[point[0]] = point[1]
        if run.lines and not run.contradicts(own.links):
            yield run
