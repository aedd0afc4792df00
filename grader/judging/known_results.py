"""Keeps what our solutions do in each case, so that the next judge need not run them.

It also holds how many devices JAX saw in the environments of a check. A file holds
hidden cases' results: no box sees it, unlike compiled programs.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.kernel import compile_cache


def find(hashes: Mapping[str, str]) -> Path:
    """Returns a lesson's file.

    Another processor, lesson, package, seed of a class, or grader has another file.
    """
    programs = compile_cache.find(hashes)
    name = "-".join([programs.name, hashes["seed"][:16], hashes["grader"][:16]])
    return programs.parent.with_name("known") / name


def decode(text: str) -> dict[tuple, Any]:
    """Reads what `encode` wrote; of anything else, nothing is known."""
    try:
        return pickle.loads(base64.b64decode(text))
    except Exception:
        return {}


def encode(known: dict[tuple, Any]) -> str:
    return base64.b64encode(pickle.dumps(known)).decode()
