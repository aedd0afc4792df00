"""Finds and words the first difference between a result and what was expected."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from facts import Opaque, describe, leaves


def difference(
    value: Any, expected: Any, rtol: float, atol: float | None, layout: Mapping
) -> tuple[str, str, str] | None:
    """Finds the first difference of two plain values: (headline, seen, expected).

    Without `atol` only structure, shapes and dtypes count.
    """
    # A float64 reference stands for f32, the dtype that JAX computes in.
    whole = describe(value), describe(expected).replace("f64[", "f32[")
    if value is None and expected is not None:
        return "The function returned None: is a return missing?", *whole
    ours, theirs = dict(leaves(expected)), dict(leaves(value))
    if ours.keys() != theirs.keys():
        return "The result has another structure.", *whole
    for path, wanted in ours.items():
        was, name = theirs[path], path or "The result"
        if isinstance(was, Opaque) or (was is None and wanted is not None):
            return f"{name} is {describe(was)}, not {describe(wanted)}.", *whole
        if isinstance(wanted, str) or not isinstance(was, np.ndarray | int | float):
            arrays = np.ndarray in (type(was), type(wanted))
            if arrays or was != wanted:
                return f"{name} is another value.", describe(was), describe(wanted)
            continue
        if np.shape(was) != np.shape(wanted):
            shapes = f"{list(np.shape(was))}, not {list(np.shape(wanted))}"
            return f"{name} has shape {shapes}.", *whole
        a, b = np.asarray(was), np.asarray(wanted)
        whole_number = type(was) is int and type(wanted) is float
        if not whole_number and not _same_kind(a.dtype, b.dtype):
            wanted_dtype = "float32" if b.dtype == np.float64 else b.dtype
            return f"{name} has dtype {a.dtype}, not {wanted_dtype}.", *whole
        if atol is None:
            continue
        wide = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
        a, b = a.astype(wide), b.astype(wide)
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            at = f" at {list(first)}" if first else ""
            headline = _where_wrong(wrong, name, layout.get(path, ()))
            return headline, f"{a[first]:.6g}{at}", f"{b[first]:.6g}{at}"
    return None


def _same_kind(seen, expected) -> bool:
    if expected == np.float64:  # a reference; bfloat16 is no subtype of np.floating
        return np.issubdtype(seen, np.floating) or seen.name.startswith("bfloat")
    return seen == expected


def _where_wrong(wrong: np.ndarray, name: str, pieces: Sequence) -> str:
    if len(pieces) > 1 and len({piece.index for piece in pieces}) == len(pieces):
        blocks = [wrong[tuple(slice(*b) for b in piece.index)] for piece in pieces]
        bad = [p.device for p, block in zip(pieces, blocks, strict=True) if block.any()]
        if len(bad) == len(pieces):
            return f"{name} is wrong on all {len(bad)} devices."
        return f"{name} is wrong on devices {ranges(bad)} of {len(pieces)}."
    if not wrong.ndim:
        return f"{name} is wrong."
    if wrong.ndim > 1 and len(wrong) > 1:
        bad = [row for row, block in enumerate(wrong) if block.any()]
        if len(bad) == len(wrong):
            return f"{name} is wrong in all {len(bad)} leading-axis blocks."
        return f"{name} is wrong in leading-axis blocks {ranges(bad)} of {len(wrong)}."
    return f"{name} is wrong in {wrong.sum()} of {wrong.size} values."


def ranges(numbers: Sequence[int]) -> str:
    """Writes ascending numbers in short: `0-3, 6`."""
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in run]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(runs)
