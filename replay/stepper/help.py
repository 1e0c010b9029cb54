"""What the keys are said to do."""

HINTS = "j k step · J K turn · c s x next ◆ ⇄ ✗ · / search · : go to · 1-5 tabs · m d diff · b why · ? help · q quit"

CHOOSING = "↑ ↓ choose a line · Enter goes where it points · b why it is there · j k step · Tab back to the events · ? help"

HELP = """\
j k → ←  the next entry, the one before       g G      the first, the last
J K      the next question, the one before    :        go to: e12 t3 c2^ s1 m4 head-5 a name, a time
c C      compaction                           /        search; n N the next hit, the one before
s S      context switch                       f        list only some kinds: user tool comp …
x X      error                                e        list only errors
Space    play, pause; . one entry             F        follow what is being written
1 … 5    Context Messages Diff Event Tree     Tab      the other pane; ↑ ↓ choose a line there
m d      mark A here; what changed since A    Enter    go where the chosen line points
b        who put it there, who took it out    [ ]      the branch before, the next one
y        copy the address                     t        the tree of forks
! o      the same as a command; in a browser  q        quit

Any key goes back."""
