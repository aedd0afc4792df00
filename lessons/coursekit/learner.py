"""The functions of the notebook, as check modules import them.

`from coursekit.learner import train_step` in a check module only names what the check
uses. `bind` gives the names their meaning before a check runs: in a notebook what its
cells define; in the judge stand-ins for the learner's functions, and the lesson's own.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .context import current_context

IS_CHECKS = "__checks__"  # a name in the namespace of a lesson's checks


class NotDefined(NameError):
    """The notebook has not defined a name that a check uses."""


class Missing:
    """Stands for a function that the notebook has not defined yet."""

    def __init__(self, name: str):
        self.__name__ = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotDefined(f"name '{self.__name__}' is not defined", name=self.__name__)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)


def imported(source: str) -> list[str]:
    """Lists the names that a check module imports from here."""
    return [
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "coursekit.learner"
        for alias in node.names
    ]


def bind(module: dict[str, Any], names: list[str], meanings: Mapping[str, Any]) -> None:
    """Gives the names that a check module imports from here their meaning."""
    module.update((name, meanings.get(name, Missing(name))) for name in names)


def namespaces_of(function: Callable) -> list[dict[str, Any]]:
    """Lists the namespaces whose code may run in a call: the function's own first."""
    own = getattr(inspect.unwrap(function), "__globals__", None)
    others = [n for n in current_context().namespaces if n is not own]
    return others if own is None else [own, *others]
