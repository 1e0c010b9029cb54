"""No struct's decoder is built after import: threads that build one at the same moment crash inside msgspec."""

import ast
from collections.abc import Iterator
from pathlib import Path

import chatfold

PACKAGES = ("eventlog", "projections", "agent", "replay")
BUILT_WHEN_A_TYPE_IS_DECLARED = {
    "eventlog/values.py: make_converter",  # what modules and declarations call
    "projections/packing.py: Unpack.__init__",
}


def late_builders(tree: ast.Module) -> Iterator[str]:
    """The functions in which msgspec may build what it knows of a type."""

    def look(node: ast.AST, name: str, inside: bool) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inside = inside or not isinstance(node, ast.ClassDef)
            name = f"{name}.{getattr(node, 'name', 'lambda')}".lstrip(".")
        if inside and isinstance(node, ast.Call) and may_build(node):
            yield name
        for child in ast.iter_child_nodes(node):
            yield from look(child, name, inside)

    return look(tree, "", False)


def may_build(call: ast.Call) -> bool:
    """``msgspec.convert(…)``, ``Decoder(…)`` of a type, or a one-time ``decode(…, type=…)``."""
    function = ast.unparse(call.func)
    is_typed = len(call.args) > 1 or any(keyword.arg == "type" for keyword in call.keywords)
    return (
        function == "msgspec.convert"
        or (function.endswith("Decoder") and bool(call.args or is_typed))
        or (function in ("msgspec.json.decode", "msgspec.msgpack.decode") and is_typed)
    )


def test_every_decoder_is_built_at_import() -> None:
    root = Path(chatfold.__file__).parent
    found = {
        f"{path.relative_to(root)}: {name}"
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
        for name in late_builders(ast.parse(path.read_text()))
    }
    assert found == BUILT_WHEN_A_TYPE_IS_DECLARED


def test_converters_are_made_at_import_or_when_a_type_is_declared() -> None:
    """``make_converter`` in a function would only move the crash."""
    root = Path(chatfold.__file__).parent
    found = set()
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            tree = ast.parse(path.read_text())
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                    if any(ast.unparse(call.func) == "make_converter" for call in calls):
                        found.add(f"{path.relative_to(root)}: {function.name}")
    assert found == {
        "agent/tools/__init__.py: tool",
        "agent/tools/__init__.py: make",
        "projections/packing.py: __init__",
    }


def test_the_rule_finds_what_crashed() -> None:
    assert [
        *late_builders(
            ast.parse(
                "a = Decoder(A)\n"
                "def f(line): return msgspec.convert(line, A)\n"
                "class B:\n"
                "    def g(self): return msgspec.json.decode(self.data, type=A)\n"
                "def h(): return msgspec.json.Decoder(A), msgspec.json.decode(b'')\n"
            )
        )
    ] == ["f", "B.g", "h"]
