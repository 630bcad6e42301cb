"""Small faults that one could have made while typing: each a replaced piece of a source text.

Code is changed, and nothing that is only read: no docstrings, annotations, decorators, imports, messages of errors, or
descriptions of parameters. Left out, too, is what cannot show: whether ``zip`` is strict, and numbers below a
millionth, which only keep a division finite.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
PAIRS = ("min max", "minimum maximum", "amin amax", "argmin argmax", "mean sum", "any all", "zeros ones", "floor ceil")
PAIRED = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
RENAMED = {
    **PAIRED,
    "std": "var",
    "var": "std",
    "nanmean": "nansum",
    "zeros_like": "ones_like",
    "clamp_min": "clamp_max",
}
ANY_ORDER = {"min", "max", "minimum", "maximum", "hypot", "union1d"}
ONLY_READ = {"description", "strict"}
LEFT_ALONE = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise)
TOO_SMALL = 1e-6


class Mutation(NamedTuple):
    """A fault.

    Attributes:
        start, end: the bytes of the source that it replaces.
        text: by what.
        line: where it is.
        lines: the lines of its statement; of a statement with a body, those of its head.
        runs_on_import: outside of every function.
    """

    start: int
    end: int
    text: str
    line: int
    lines: range
    runs_on_import: bool

    def applied(self, source: str) -> str:
        """Return the source with the fault."""
        whole = source.encode()
        return (whole[: self.start] + self.text.encode() + whole[self.end :]).decode()


def mutations_of(source: str) -> list[Mutation]:
    """Return all faults of a source text, each once, in order."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(dict.fromkeys(finder.found))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Mutation] = []
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = range(0)
        self._functions = 0

    def _add(self, node: ast.expr | ast.stmt, text: str) -> None:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        self.found.append(Mutation(start, end, text, node.lineno, self._lines, not self._functions))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, LEFT_ALONE):
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            self._lines = range(node.lineno, last + 1)
            for text in _statements(node):
                self._add(node, text)
        elif isinstance(node, ast.expr):
            for changed in _expressions(node):
                self._add(node, f"({ast.unparse(ast.fix_missing_locations(changed))})")
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._functions += 1
        self._all(node.body)
        self._functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._all(node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            if not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
                self._add(node.test, f"(not ({ast.unparse(node.test)}))")
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ONLY_READ:
            self.generic_visit(node)

    def _all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)


def _statements(node: ast.stmt) -> Iterator[str]:
    """Yield what may stand in a statement's place."""
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Continue():
            yield "break"


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what may stand in an expression's place."""
    match node:
        case ast.Compare():
            for place, op in enumerate(node.ops):
                for other in COMPARED[type(op)]:
                    yield _with(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
        case ast.BinOp() if type(node.op) in COMPUTED:
            yield _with(node, op=COMPUTED[type(node.op)]())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp():
            yield node.operand
        case ast.IfExp():
            yield _with(node, body=node.orelse, orelse=node.body)
        case ast.Constant():
            yield from (ast.Constant(value) for value in _values(node.value))
        case ast.Call():
            yield from _calls(node)


def _values(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value > 0:
            yield value - 1
    elif isinstance(value, float) and (value == 0 or abs(value) >= TOO_SMALL):
        yield 2 * value if value else 1.0


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in RENAMED:
        part = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield _with(node, func=_with(node.func, **{part: RENAMED[name]}))
    first = 1 if name == "where" else 0  # of where(condition, a, b) the two answers
    if len(node.args) > first + 1 and name not in ANY_ORDER:
        one, other = node.args[first : first + 2]
        if ast.dump(one) != ast.dump(other) and not any(isinstance(a, ast.Starred) for a in (one, other)):
            yield _with(node, args=[*node.args[:first], other, one, *node.args[first + 2 :]])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
