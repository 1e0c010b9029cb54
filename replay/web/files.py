"""Files: the page as it is sent. All of it stands below a name made from its contents, so that a browser asks for it once."""

from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parent / "static"


def modules() -> list[str]:
    """The scripts of the page, the one that is not ours first."""
    return ["vendor/preact.js", *sorted(one.name for one in STATIC.glob("*.js"))]


def _version() -> str:
    digest = sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(STATIC)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _page() -> str:
    """With every script named at the beginning: they come side by side, and not one after the other."""
    ahead = "".join(f'<link rel="modulepreload" href="/static/{name}">\n' for name in modules())
    page = (STATIC / "index.html").read_text("utf-8").replace("<script ", f"{ahead}<script ", 1)
    return page.replace("/static/", f"/static/{VERSION}/")


VERSION = _version()
PAGE = _page()
