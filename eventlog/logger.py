"""The logger of all of chatfold: ``logging.getLogger("chatfold")``.

It has warnings only, of what went wrong where no caller can be told: what a repair cut off, what a shutdown left behind, a summary
that a model did not make, an observer that raised. What a caller can be told is an exception, and what happened in a chat is an event.
"""

import logging

logger = logging.getLogger("chatfold")
