"""Finding an archived context: by its title, else by what was said in it, else by as many of the words as possible.

Of contexts in which the query was said, the one that says it most often is the best; a query that stands somewhere as
words of their own is not looked for inside of other words.
"""

import re
from unicodedata import normalize

from chatfold.eventlog import Log
from chatfold.projections import Contexts
from chatfold.projections.archive import archived
from chatfold.projections.context import Context
from chatfold.projections.spans import includes, minus, spans

_MOST_WORDS = 24
_MOST_HITS = 1000  # of a word, the newest: in a long context there may be many before the next one


async def best_context(log: Log, key: str, state: Contexts, head: int, query: str) -> str | None:
    """The id; None if nothing matches. Of several that match equally well, the one left last."""
    shelf = archived(state)
    words = _words(query)
    for context in shelf:
        if words and all(word in _alike(context.title) for word in words):
            return context.id
    shelved = spans(span for context in shelf for span in context.spans)
    elsewhere = (*minus(((1, head),), shelved), (head + 1, 1 << 62))
    for wanted in dict.fromkeys((query, " ".join(words) or query)):
        hits = await log.search(key, wanted, limit=_MOST_HITS, without=elsewhere)
        best = [hit for hit in hits if _has_whole_words(hit.preview, words)] or hits
        if best:
            return max(shelf, key=lambda context: sum(includes(context.spans, hit.seq) for hit in best)).id
    return await _by_words(log, key, shelf, elsewhere, words)


def _has_whole_words(preview: str, words: list[str]) -> bool:
    """Does the place that matches show one of the words on its own?"""
    text = _alike(preview)
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words if word)


def _alike(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _words(query: str) -> list[str]:
    """Without the punctuation around them."""
    bare = (re.sub(r"^[\W_]+|[\W_]+$", "", word) or word for word in _alike(query).split())
    return list(dict.fromkeys(bare))[:_MOST_WORDS]


async def _by_words(
    log: Log, key: str, shelf: list[Context], elsewhere: tuple[tuple[int, int], ...], words: list[str]
) -> str | None:
    """The context that holds the most of the words, somewhere in it or in its title, and at least half of them."""
    found = {context.id: sum(word in _alike(context.title) for word in words) for context in shelf}
    for word in words:
        try:
            hits = await log.search(key, word, limit=_MOST_HITS, without=elsewhere)
        except ValueError:  # nothing but punctuation
            continue
        for context in shelf:
            if word not in _alike(context.title):
                found[context.id] += any(includes(context.spans, hit.seq) for hit in hits)
    best = max(shelf, key=lambda context: found[context.id], default=None)
    return best.id if best is not None and 0 < len(words) <= 2 * found[best.id] else None
