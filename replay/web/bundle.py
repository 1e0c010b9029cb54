"""Bundle: the modules of the page as one script, for a page that stands alone: a browser loads no module from a disk.

Our modules keep to a few forms, and only those are understood: imports on one line of names from one file, exports before what they name,
or all at once at the end. They go in an order in which each comes after what it needs; so there can be no circle among them.
"""

import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_STYLES = ("tokens", "controls", "home", "main", "timeline", "panes")
_IMPORT = re.compile(r'^import \{ ?([^}]*?) ?\} from "\./([\w./]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function\*?|class) ?(\w+))", re.MULTILINE)
_LIST = re.compile(r"^export ?\{([^}]*)\};?$|;export\{([^}]*)\};?\s*$", re.MULTILINE)


def bundle() -> str:
    files = ["vendor/preact.js", *sorted(one.name for one in STATIC.glob("*.js"))]
    texts = {name: (STATIC / name).read_text("utf-8") for name in files}
    order: list[str] = []
    for name in texts:
        _place(name, texts, order, ())
    names = {name: f"m{number}" for number, name in enumerate(order)}
    script = "\n".join(_wrap(texts[name], names[name], names) for name in order)
    if "</script" in script.lower() or "<!--" in script:
        raise AssertionError("this would end the script it stands in")
    return script


def _place(name: str, texts: dict[str, str], order: list[str], way: tuple[str, ...]) -> None:
    if name in way:
        raise AssertionError(f"modules in a circle: {' -> '.join((*way, name))}")
    if name not in order:
        for _, needed in _IMPORT.findall(texts[name]):
            _place(needed, texts, order, (*way, name))
        order.append(name)


def _wrap(text: str, name: str, names: dict[str, str]) -> str:
    """As a function that gives what the module exports."""
    given = [(one, one) for one in _EXPORT.findall(text)]
    for some in _LIST.findall(text):
        given += [_split_alias(one) for one in (some[0] or some[1]).split(",") if one.strip()]
    text = _LIST.sub(lambda found: ";" if found[2] else "", text)
    text = _EXPORT.sub("", text)
    text = _IMPORT.sub(
        lambda found: f"const {{ {found[1].replace(' as ', ': ')} }} = {names[found[2]]};", text
    )
    if re.search(r"^(import|export)\b", text, re.MULTILINE):
        raise AssertionError("a form of import or export that is not understood")
    public = ", ".join(f"{outside}: {inside}" for inside, outside in given)
    return f"const {name} = (() => {{\n{text}\nreturn {{ {public} }};\n}})();"


def _split_alias(one: str) -> tuple[str, str]:
    inside, _, outside = one.strip().partition(" as ")
    return inside, outside or inside


def styles() -> str:
    return "\n".join((STATIC / "style" / f"{name}.css").read_text("utf-8") for name in _STYLES)
