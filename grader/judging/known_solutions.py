"""Keeps what our own solutions do, for judges to come.

A judge observes the solution in each hidden case, which takes it longer than the checks
of a submission. A trusted judge, which never sees untrusted code, writes down all that
it has observed; judges of the same class, lesson, grader and packages read it. The file
tells what hidden tests expect, so it lies in no learner's box.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.atomic_files import write_file
from grader.kernel import compile_cache

INSIDE = "/tmp/solutions.pickle"  # where it lies in a judge's box

Known = dict[Any, Any]


def find(hashes: Mapping[str, str]) -> Path:
    """Returns the path of the file for a class of these `hashes`, on this machine."""
    values = (hashes[name] for name in ("lesson", "seed", "grader", "packages"))
    return compile_cache.place("solutions", *values).with_suffix(".pickle")


def write(path: str, cases: Known, programs: Known, counts: Known) -> None:
    """Writes what a judge knows of cases, of programs' results, of devices counted.

    Raises:
        OSError: the file cannot be written.
    """
    write_file(Path(path), pickle.dumps((cases, programs, counts)))


def read(path: str) -> tuple[Known, Known, Known]:
    """Reads what `write` wrote; nothing without a file, or from a broken one."""
    try:
        cases, programs, counts = map(dict, pickle.loads(Path(path).read_bytes()))
    except Exception:
        return {}, {}, {}
    return cases, programs, counts
