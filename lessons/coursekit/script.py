"""Writes a notebook's function as a script, with all that it uses."""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import inspect
import itertools
import linecache
import re
import symtable
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .learner import namespaces_of

HEAD = '''"""SUMMARY

Written from a notebook by `write_script`; settings are JSON.

    python FILE SETTINGS                         one process
    python FILE SETTINGS HOST:PORT COUNT NUMBER  one of several; process 0 is at HOST
    python FILE SETTINGS cluster                 one of a cluster's
"""
'''
START = '''
def _start():
    """Joins the other processes, before JAX is used; returns the settings."""
    import json
    import os
    import socket
    import sys
    import traceback

    import jax

    def end(kind, error, trace):
        vars(error).pop("__notes__", None)  # JAX's remarks: the error comes last
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(1)  # an orderly end would wait for the other processes

    sys.excepthook = end
    if sys.argv[2:] == ["cluster"]:  # SLURM, Kubernetes, TPU: JAX finds its settings
        jax.distributed.initialize()
    elif sys.argv[2:]:
        address, count, number = sys.argv[2:]
        host, port = address.split(":")
        with socket.socket() as probe:
            if number == "0" and probe.connect_ex((host, int(port))) == 0:
                sys.exit(f"Port {port} belongs to another process: choose another.")
        jax.distributed.initialize(address, int(count), int(number))
    return json.loads(sys.argv[1])


if __name__ == "__main__":
    _settings = _start()'''
CALL = """
if __name__ == "__main__":
    FUNCTION(**_settings)
"""
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
CELL = re.compile(r"ipykernel_\d+|<ipython-input-")  # in the name of a cell's code


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of a cell, outside of all functions.

    Attributes:
        source: its lines, with those of its decorators.
        kind: its class in `ast`.
        binds: names to which it gives a value; "*" and "__future__" for such imports.
        reads: names that it reads when it is run.
        reads_later: names that its functions read when they are called.
    """

    source: str
    kind: type[ast.stmt]
    binds: frozenset[str]
    reads: frozenset[str]
    reads_later: frozenset[str]


def write_script(path: Path | str, function: Callable) -> None:
    """Writes a script that calls `function(**settings)`.

    It holds those statements of the notebook's cells that the function needs, as they
    are and in the order in which they were run: the last definition of each name.

    Args:
        path: the script's file.
        function: a function that is defined in the notebook, or in a module.

    Raises:
        ValueError: no cell defines the function.
    """
    name = inspect.unwrap(function).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the cells were run
        statements = [s for cell in cells_of(function) for s in statements_of(cell)]
    if not any(name in statement.binds for statement in statements):
        raise ValueError(f"The source of {name} is not found: run its cell again.")
    summary = inspect.getdoc(function) or f"Runs {name}."
    head = HEAD.replace("SUMMARY", summary.splitlines()[0])
    kept = needed(name, statements)
    first = [one for one in kept if "__future__" in one.binds]
    text, was_long = head.replace("FILE", Path(path).name), True
    text += "".join(f"\n{one.source}\n" for one in first) + START
    for statement in [one for one in kept if one not in first]:
        if not (statement.kind is ast.Import and f"\n{statement.source}\n" in text):
            is_long = issubclass(statement.kind, FUNCTION | ast.ClassDef)
            text += ("\n\n\n" if is_long or was_long else "\n") + statement.source
            was_long = is_long
    text += "\n\n" + CALL.replace("FUNCTION", name)
    Path(path).write_text(text, encoding="utf-8")


def cells_of(function: Callable) -> Sequence[str]:
    """Lists the cells that were run, in their order, or a module's file as one."""
    namespaces = namespaces_of(function)
    if file := namespaces[0].get("__file__"):
        return [Path(file).read_text(encoding="utf-8")]
    history = next((names["In"] for names in namespaces if "In" in names), [])
    if any(history):
        return history
    # A client that asks for no history, as nbval does: what tracebacks would show.
    cells = [place for place in linecache.cache if CELL.search(place)]
    return ["".join(linecache.getlines(place)) for place in cells]


def statements_of(cell: str) -> Iterator[Statement]:
    """Reads a cell's statements, also those below a magic such as `%%time`."""
    with contextlib.suppress(SyntaxError):  # of a cell that never ran
        for node in ast.parse(cell).body:
            match getattr(node, "value", None):
                case ast.Call(
                    ast.Attribute(_, "run_cell_magic"), [*_, ast.Constant(x)]
                ):
                    yield from statements_of(x)
                case _:
                    yield statement_of(node, cell.split("\n"))


def statement_of(node: ast.stmt, lines: Sequence[str]) -> Statement:
    decorators = getattr(node, "decorator_list", ())
    first = min(part.lineno for part in (node, *decorators))
    source = "\n".join(lines[first - 1 : node.end_lineno])
    table = symtable.symtable(source, "", "exec")
    symbols = {symbol.get_name(): symbol for symbol in table.get_symbols()}
    binds = {
        n
        for n, symbol in symbols.items()
        if symbol.is_assigned() or symbol.is_imported()
    }
    reads = {n for n, symbol in symbols.items() if symbol.is_referenced()}
    inner = {name for scope in table.get_children() for name in free_names(scope)}
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
        if isinstance(target, ast.Subscript):  # x[0] = ...
            binds |= {getattr(target.value, "id", "")}
    if isinstance(node, ast.ImportFrom):
        binds |= {node.module, node.names[0].name} & {"*", "__future__"}
    if not isinstance(node, FUNCTION):  # what it defines may be called at once
        reads |= inner
    if not isinstance(node, FUNCTION | ast.ClassDef | ast.Assign | ast.ImportFrom):
        reads |= binds  # what was there before may be used, or stay
    return Statement(source, type(node), *map(frozenset, (binds, reads, inner)))


def free_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yields the names that a function or class reads from around it."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from free_names(inner)


def needed(name: str, statements: Sequence[Statement]) -> list[Statement]:
    """Lists the statements that a name needs when it is called after all of them.

    What a statement reads when it is run needs what was there at its place.
    """
    places = collections.defaultdict(list)
    for place, statement in enumerate(statements):
        for bound in statement.binds:
            places[bound].append(place)
    kept = {*places["*"], *places["__future__"]}
    asked = [(name, len(statements))]
    known = {*asked}
    for name, end in asked:
        if not (before := [place for place in places[name] if place < end]):
            continue
        kept.add(place := before[-1])
        ends = {end, len(statements)}
        later = itertools.product(statements[place].reads_later, ends)
        news = {*later, *((used, place) for used in statements[place].reads)} - known
        known |= news
        asked += sorted(news)
    return [statements[place] for place in sorted(kept)]
