"""Files: the page as it is sent: one script, one style, below a name made from their contents, so that a browser asks for them once.

The modules are put together when the server starts, by ``bundle``. So nobody builds anything, and opening the page costs three requests.
"""

from hashlib import sha256
from typing import NamedTuple

from chatfold.replay.web.bundle import STATIC, bundle, styles


class Files(NamedTuple):
    """``page``: the document that names the others below ``/static/VERSION/``; ``home``: it asks for the chats at once, too."""

    version: str
    page: str
    home: str
    script: str
    style: str
    icon: str


def read_files() -> Files:
    script, style, icon = bundle(), styles(), (STATIC / "icon.svg").read_text("utf-8")
    version = sha256(f"{script}\0{style}\0{icon}".encode()).hexdigest()[:16]
    here = f"/static/{version}"
    page = (  # what is in it at %s is asked for before the script runs
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="dark light">\n<title>chatfold</title>\n'
        f'%s<link rel="icon" href="{here}/icon.svg" type="image/svg+xml">\n<link rel="stylesheet" href="{here}/page.css">\n'
        f'<script type="module" src="{here}/page.js"></script>\n</head>\n<body><div id="page"></div></body>\n</html>\n'
    )
    chats = '<link rel="preload" href="/api/v1/chats" as="fetch" crossorigin>\n'
    return Files(version, page % "", page % chats, script, style, icon)
