"""Writes a notebook's function as a script, with all that it uses."""

from __future__ import annotations

import ast
import contextlib
import dis
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import learner
from .learner import namespaces_of

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
    except BaseException as error:
        vars(error).pop("__notes__", None)  # JAX's remarks: the error comes last
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
FROM_AROUND = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


def write_script(path: Path | str, function: Callable) -> None:
    """Writes a script that calls `function(**settings)`.

    It holds the source of the function and of the notebook's functions, classes,
    constants and imports that it uses.

    Args:
        path: the script's file.
        function: a function that is defined in the notebook.

    Raises:
        ValueError: it uses something that is no function, class, plain value or import.
    """
    imports, values, definitions = {}, {}, {}
    collect(function, namespaces_of(function)[0], imports, values, definitions)
    summary = inspect.getdoc(function) or f"Runs {function.__name__}."
    head = USAGE.replace("SUMMARY", summary.splitlines()[0])
    parts = [
        head.replace("FILE", Path(path).name) + "\nfrom __future__ import annotations",
        "\n".join(sorted(imports.values())),
        "\n".join(values.values()),
        "\n\n\n".join(definitions.values()),
        MAIN.replace("FUNCTION", function.__name__),
    ]
    Path(path).write_text("\n\n".join(part for part in parts if part), encoding="utf-8")


def collect(
    own: Callable, namespace: dict, imports: dict, values: dict, definitions: dict
) -> None:
    """Adds the source of a function or class, after that of all that it uses."""
    plain = inspect.unwrap(own)
    namespace = getattr(plain, "__globals__", namespace)  # a class has none
    definitions[plain.__name__] = ""  # it may call itself
    source = source_of(plain)
    for name in sorted(names_read(source) & namespace.keys()):
        value = namespace[name]
        if name in {**imports, **values, **definitions} or name.startswith("__"):
            continue
        if isinstance(value, types.ModuleType):
            imports[name] = f"import {value.__name__}{alias(value.__name__, name)}"
        elif is_own(value, name, namespace):
            collect(value, namespace, imports, values, definitions)
        elif is_plain(value):
            values[name] = f"{name} = {value!r}"
        elif home := home_of(value):
            place = value.__qualname__
            imports[name] = f"from {home} import {place}{alias(place, name)}"
        else:
            kind = type(value).__name__
            raise ValueError(
                f"{plain.__name__} uses {name}, a {kind}, which cannot be written into "
                "a script: make it inside a function."
            )
    definitions[plain.__name__] = definitions.pop(plain.__name__) or source


def alias(place: str, name: str) -> str:
    return "" if place == name else f" as {name}"


def is_own(value: Any, name: str, namespace: dict) -> bool:
    """Tells whether the notebook defines this function or class by this name."""
    plain = inspect.unwrap(value) if callable(value) else None
    if isinstance(plain, type):
        home = (plain.__module__, plain.__qualname__)
        return home == (namespace["__name__"], name)
    if not isinstance(plain, types.FunctionType) or plain.__name__ != name:
        return False
    around = (namespace, *learner.namespaces)
    return any(plain.__globals__ is names for names in around)


def source_of(plain: Callable) -> str:
    """Returns the source of a function or class, with its decorators.

    Python looks for a class in its module's file, and a notebook has none: there it is
    the last definition of that name in a cell.

    Raises:
        ValueError: no source is found.
    """
    with contextlib.suppress(OSError, TypeError):
        return textwrap.dedent(inspect.getsource(plain)).strip()
    for place in reversed(linecache.cache):
        if Path(place).exists():  # not a cell
            continue
        cell = "".join(linecache.getlines(place))
        with contextlib.suppress(SyntaxError):  # of a cell that never ran
            for part in reversed(ast.parse(cell).body):
                if isinstance(part, ast.ClassDef) and part.name == plain.__name__:
                    first = min(one.lineno for one in (part, *part.decorator_list))
                    return "".join(cell.splitlines(True)[first - 1 : part.end_lineno])
    raise ValueError(
        f"The source of {plain.__name__} is not found: run its cell again."
    )


def names_read(source: str) -> set[str]:
    """Names what a definition reads from around it, inner functions included."""
    codes, names = [compile(source, "", "exec", dont_inherit=True)], set()
    for code in codes:
        codes += (part for part in code.co_consts if isinstance(part, types.CodeType))
        steps = dis.get_instructions(code)
        names |= {step.argval for step in steps if step.opname in FROM_AROUND}
    return names


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
