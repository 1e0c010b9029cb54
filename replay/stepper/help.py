"""What the keys are said to do."""

HINTS = (
    "j k step",
    "J K turn",
    "1-5 tabs",
    "/ search",
    "c s x next ◆ ⇄ ✗",
    "m d diff",
    "b why",
    ": go to",
    "? help",
    "q quit",
)
CHOOSING = (
    "↑ ↓ choose a line",
    "Enter go there",
    "Tab back",
    "b why it is there",
    "j k step",
    "? help",
    "q quit",
)


def footer(hints: tuple[str, ...], cells: int) -> str:
    """As many as fit; help and quit always."""
    first, last = list(hints[:-2]), hints[-2:]
    while first and len(" · ".join((*first, *last))) > cells:
        first.pop()
    return " · ".join((*first, *last))


HELP = """\
j k → ←  the next entry, the one before       g G      the first, the last
J K      the next question, the one before    :        go to: e12 t3 c2^ m4 -2h
c C      compaction                           /        search; n N next, before
s S      context switch                       f        only some kinds: user …
x X      error                                e        only errors
F        follow what is being written         Esc      back; ends a search
1 … 5    Context Messages Diff Event Tree     Tab      the other pane: ↑ ↓
m d      mark A here; what changed since A    Enter    go to the chosen line
b        who put it there, who took it out    [ ]      the branch before, after
y        the address of this point            t        the tree of forks
!        the command that prints the same     q        quit

Any key goes back."""
