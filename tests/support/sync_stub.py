"""Writes ``chatfold/sync.pyi`` from the signatures of the async classes: ``python -m tests.support.sync_stub``.

With ``--check`` it writes nothing, and fails if the stub is not what it would write.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PLACE = Path(__file__).parents[2]
STUB = PLACE / "chatfold" / "sync.pyi"
CLASSES = {"Store": "store", "Moment": "moment", "Chat": "chat", "Agent": "agent"}
BASES = {"agent": "conversations", "chat": "live"}
"""Modules of classes that are but a part of another: their methods are that one's."""
_ITERATORS = {"AsyncIterator": "Generator", "AsyncGenerator": "Generator"}
_SPECIAL = ("__init__", "__getitem__")
_CONTEXT = "def __enter__(self) -> Self: ...\ndef __exit__(self, *error: object) -> None: ..."
_HEAD = '"""Written by ``python -m tests.support.sync_stub`` from the async classes. Do not edit."""\n'
_UNUSED = {"TYPE_CHECKING", *_ITERATORS}


class _Sync(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_ITERATORS.get(node.id, node.id))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return (
            ast.Name(str(node.value)) if node.value in CLASSES else node
        )  # a class that is named before it is there


def stub() -> str:
    trees = {name: _tree(module) for name, module in CLASSES.items()}
    classes = [_class(name, tree) for name, tree in trees.items()]
    used = {node.id for one in classes for node in ast.walk(one) if isinstance(node, ast.Name)}
    imports = {
        line for name, tree in trees.items() for line in _imports(CLASSES[name], tree, used - {*CLASSES})
    }
    lines = [_HEAD, *sorted(imports), "from collections.abc import Generator", "from typing import Self"]
    return "\n".join([*lines, *map(ast.unparse, classes)]) + "\n"


def _tree(module: str) -> ast.Module:
    """Of the module, with that of its base class before it, if the base is not for users."""
    text = (PLACE / "agent" / f"{module}.py").read_text()
    return ast.parse(
        (PLACE / "agent" / f"{BASES[module]}.py").read_text() + text if module in BASES else text
    )


def _imports(module: str, tree: ast.Module, used: set[str]) -> Iterator[str]:
    """From where this module has them, or from this module itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.col_offset <= 4:
            for alias in node.names:
                if (alias.asname or alias.name) in used - _UNUSED:
                    yield ast.unparse(ast.ImportFrom(node.module, [alias], 0))
    for name in used & {*map(_defined, tree.body)}:
        yield f"from chatfold.agent.{module} import {name}"


def _defined(node: ast.stmt) -> str:
    match node:
        case (
            ast.ClassDef(name=name)
            | ast.AnnAssign(target=ast.Name(id=name))
            | ast.Assign(targets=[ast.Name(id=name)])
        ):
            return name
    return ""


def _class(name: str, tree: ast.Module) -> ast.ClassDef:
    names = (name, BASES.get(CLASSES[name], name).title())
    found, *bases = [n for n in reversed(tree.body) if isinstance(n, ast.ClassDef) and n.name in names]
    inherited = [node for base in bases for node in base.body]
    body: list[ast.stmt] = [found.body[0]] if ast.get_docstring(found) else []
    overloaded: set[str] = set()
    for node in (*found.body, *inherited):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(node.name):
            if (
                node.name == "__init__"
                and node in inherited
                and "__init__" in {getattr(one, "name", "") for one in body}
            ):
                continue
            decorators = {ast.unparse(one) for one in node.decorator_list}
            if (
                node.name in overloaded and "overload" not in decorators
            ):  # the one that does it; a stub has none
                first = next(one for one in body if getattr(one, "name", "") == node.name)
                first.body = [node.body[0]]  # type: ignore[attr-defined]  # its docstring, for an editor
                continue
            if "overload" in decorators:
                overloaded.add(node.name)
            body.append(_method(node))
    if name in ("Store", "Agent"):
        body += ast.parse(_CONTEXT).body
    over: list[ast.expr] = [ast.Name("Moment")] if name == "Chat" else []
    return ast.ClassDef(name, over, [], body or [ast.Pass()], [])


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in _SPECIAL


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    args = _Sync().visit(node.args)
    args.defaults = [_default(one) for one in args.defaults]
    args.kw_defaults = [one and _default(one) for one in args.kw_defaults]
    returns = _Sync().visit(node.returns) if node.returns else None
    doc = [node.body[0]] if ast.get_docstring(node) else []
    end: list[ast.stmt] = [] if doc else [ast.Expr(ast.Constant(...))]
    return ast.fix_missing_locations(
        ast.FunctionDef(node.name, args, [*doc, *end], node.decorator_list, returns)
    )


def _default(value: ast.expr) -> ast.expr:
    return value if isinstance(value, ast.Constant) else ast.Constant(...)


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    sorted_ = subprocess.run(
        [*ruff, "check", "--select", "I", "--fix", "-q", "--stdin-filename", str(STUB), "-"],
        input=text, capture_output=True, text=True, check=False, cwd=PLACE,
    ).stdout  # fmt: skip
    return subprocess.run(
        [*ruff, "format", "--stdin-filename", str(STUB), "-"],
        input=sorted_, capture_output=True, text=True, check=True, cwd=PLACE,
    ).stdout  # fmt: skip


def is_current() -> bool:
    """True if the stub says what the classes say, however it is laid out."""
    return STUB.exists() and _said(STUB.read_text()) == _said(stub())


def _said(text: str) -> set[str]:
    tree = ast.parse(text)
    imported = {
        f"{node.module}.{one.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    return imported | {ast.dump(node) for node in tree.body if not isinstance(node, ast.ImportFrom)}


if __name__ == "__main__":
    if "--check" not in sys.argv:
        STUB.write_text(_formatted(stub()))
    elif not is_current():
        sys.exit("chatfold/sync.pyi is stale: run python -m tests.support.sync_stub")
