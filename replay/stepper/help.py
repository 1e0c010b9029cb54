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
J K      the next question, the one before    :        go to: e12 t3 c2^ s1 m4 head-5 a name, a time
c C      compaction                           /        search; n N the next hit, the one before
s S      context switch                       f        list only some kinds: user tool comp …
x X      error                                e        list only errors
F        follow what is being written         Esc      back; stops a search
1 … 5    Context Messages Diff Event Tree     Tab      the other pane; ↑ ↓ choose a line there
m d      mark A here; what changed since A    Enter    go where the chosen line points
b        who put it there, who took it out    [ ]      the branch before, the next one
y        the address of this point            t        the tree of forks
!        the command that prints the same     q        quit

Any key goes back."""
