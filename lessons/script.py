"""Writes a notebook's function as a script, with all that it uses."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAIN = """
if __name__ == "__main__":
    import json
    import os
    import socket
    import sys
    import traceback

    import jax

    if sys.argv[2:] == ["cluster"]:  # SLURM, Kubernetes, TPU: JAX finds its settings
        jax.distributed.initialize()
    elif sys.argv[2:]:
        address, count, number = sys.argv[2:]
        host, port = address.split(":")
        with socket.socket() as probe:
            if number == "0" and probe.connect_ex((host, int(port))) == 0:
                sys.exit(f"Port {port} belongs to another process: choose another.")
        jax.distributed.initialize(address, int(count), int(number))
    try:
        FUNCTION(**json.loads(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # an orderly end would wait for the other processes
"""
USAGE = '''"""SUMMARY

Written from a notebook by `write_script`; settings are JSON.

    python FILE SETTINGS                         one process
    python FILE SETTINGS HOST:PORT COUNT NUMBER  one of several; process 0 is at HOST
    python FILE SETTINGS cluster                 one of a cluster's
"""
'''


def write_script(path: Path | str, function: Callable) -> None:
    """Writes a script that calls `function(**settings)`.

    It holds the source of the function and of the notebook's functions, constants and
    imports that it uses.

    Args:
        path: the script's file.
        function: a function that is defined in the notebook.

    Raises:
        ValueError: it uses something that is no function, plain value or import.
    """
    imports, values, functions = {}, {}, {}
    collect(function, imports, values, functions)
    summary = inspect.getdoc(function) or f"Runs {function.__name__}."
    head = USAGE.replace("SUMMARY", summary.splitlines()[0])
    parts = [
        head.replace("FILE", Path(path).name) + "\nfrom __future__ import annotations",
        "\n".join(sorted(imports.values())),
        "\n".join(values.values()),
        "\n\n\n".join(functions.values()),
        MAIN.replace("FUNCTION", function.__name__),
    ]
    Path(path).write_text("\n\n".join(part for part in parts if part))


def collect(function: Callable, imports: dict, values: dict, functions: dict) -> None:
    """Adds a function's source, after that of all that it uses."""
    plain = inspect.unwrap(function)
    functions[plain.__name__] = ""  # it may call itself
    source = textwrap.dedent(inspect.getsource(plain))
    for name in sorted(used(plain.__code__) | used_by_definition(source)):
        value = plain.__globals__.get(name, builtins)
        if value is builtins or name in {**imports, **values, **functions}:
            continue
        if isinstance(value, types.ModuleType):
            imports[name] = f"import {value.__name__}{alias(value.__name__, name)}"
        elif is_own(value, name, plain.__globals__):
            collect(value, imports, values, functions)
        elif is_plain(value):
            values[name] = f"{name} = {value!r}"
        elif home := home_of(value):
            place = value.__qualname__
            imports[name] = f"from {home} import {place}{alias(place, name)}"
        else:
            kind = type(value).__name__
            raise ValueError(
                f"{plain.__name__} uses {name}, a {kind}, which cannot be written into "
                "a script: make it inside of a function."
            )
    functions[plain.__name__] = functions.pop(plain.__name__) or source.strip()


def alias(place: str, name: str) -> str:
    """Writes what an import adds where a notebook calls a thing by another name."""
    return "" if place == name else f" as {name}"


def is_own(value: Any, name: str, namespace: dict) -> bool:
    """Tells whether a value is the function that the notebook defines by this name."""
    plain = inspect.unwrap(value) if callable(value) else None
    is_function = isinstance(plain, types.FunctionType)
    return is_function and plain.__globals__ is namespace and plain.__name__ == name


def used(code: types.CodeType) -> set[str]:
    """Names the globals that a function's code reads, inner functions included."""
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    steps = dis.get_instructions(code)
    own = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*map(used, inner))


def used_by_definition(source: str) -> set[str]:
    """Names what a function's decorators and default values read."""
    definition = ast.parse(source).body[0]
    parts: Iterator[Any] = iter((*definition.decorator_list, definition.args))
    names = (node for part in parts for node in ast.walk(part))
    return {node.id for node in names if isinstance(node, ast.Name)}


def is_plain(value: Any) -> bool:
    """Tells whether a value is written by its repr: numbers, texts, containers."""
    try:
        return ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError, TypeError):
        return False


def home_of(value: Any) -> str:
    """Names a module that holds a function or class, a public one if there is one."""
    module = getattr(value, "__module__", None)
    place = getattr(value, "__qualname__", None)
    if not module or not place or module == "__main__":
        return ""
    package = module.split(".")[0]
    for name in [*sorted(sys.modules, key=len), module]:
        if name == module or (name.split(".")[0] == package and "._" not in name):
            if getattr(sys.modules[name], place, None) is value:
                return name
    return ""
