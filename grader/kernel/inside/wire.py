"""Encodes values and observations as plain JSON, and decodes only such JSON.

Both the judge's process and the learner's use it. Nothing that is decoded can run code.
"""

from __future__ import annotations

import base64
import functools
import math
from typing import Any

import jax
import numpy as np
from jax.dtypes import prng_key

from coursekit.observation import Observation, Opaque

MAX_BYTES = 2**24  # of all arrays in one message
MAX_DEPTH, MAX_ITEMS, MAX_TEXT = 40, 20_000, 100_000
MOST = {"items": MAX_ITEMS, "characters": MAX_TEXT, "bytes": MAX_BYTES}
MAX_KEYS, MAX_KEY = 1000, 200  # of one dict; characters of one key
ERROR_TEXT = {"message": 4000, "function": 200}  # most characters
MAX_TRACE, MAX_TRACE_LINE = 4, 400
MAX_BITS = 10_000  # of a whole number: Python prints no more than 4300 digits
DTYPES = (
    "bool int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 "
    "bfloat16 float32 float64 complex64 complex128"
).split()
KINDS = "list tuple dict array key opaque complex bytes".split()
FIELDS = {"array": ("shape", "data", "on_device", "scalar"), "key": ("data",)}
KEYS = {name: name for name in ("threefry2x32", "rbg", "unsafe_rbg")}
KEYS["fry"] = "threefry2x32"  # as some versions of JAX call it


class WireError(ValueError):
    """A message holds what it must not hold."""


def require(holds: bool, problem: str) -> None:
    """Raises `WireError` unless `holds`."""
    if not holds:
        raise WireError(f"The answer holds {problem}.")


def encode(value: Any, shapes_only: bool = False) -> Any:
    """Turns plain values and arrays into JSON; with `shapes_only`, arrays lose data.

    Raises:
        WireError: a value of another kind, or more than `MAX_BYTES` of arrays.
    """
    if isinstance(value, np.generic):  # some are Python's floats too
        return encode_array(value, False) | {"scalar": True}
    if value is None or isinstance(value, bool | int | float | str):
        is_huge = isinstance(value, int) and value.bit_length() > MAX_BITS
        require(not is_huge, "too large a number")
        return value
    if isinstance(value, Opaque):
        return {"opaque": value.type_name}
    if isinstance(value, bytes):
        require(len(value) <= MAX_BYTES, f"{len(value)} bytes")
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, shapes_only) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v, shapes_only)] for k, v in value.items()]}
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, prng_key):
        data = encode(jax.random.key_data(value), shapes_only)
        return {"key": str(jax.random.key_impl(value)), "data": data}
    if isinstance(value, jax.Array | np.ndarray):
        return encode_array(value, shapes_only)
    raise WireError(f"A value of type {type(value).__name__} cannot be sent.")


def encode_array(value: Any, shapes_only: bool) -> dict[str, Any]:
    name = str(value.dtype)
    if name not in DTYPES or value.nbytes > MAX_BYTES:
        raise WireError(f"An array of {value.nbytes} bytes of {name} cannot be sent.")
    facts = {"array": name, "shape": list(value.shape)}
    if isinstance(value, jax.Array):
        facts["on_device"] = True
    if not shapes_only:
        data = np.ascontiguousarray(np.asarray(value)).tobytes()
        facts["data"] = base64.b64encode(data).decode()
    return facts


def decode(document: Any, *, plain: bool = False) -> Any:
    """Reads what `encode` wrote; an array without data becomes a ShapeDtypeStruct.

    With `plain`, only what `observation.plain` makes: the host's arrays, with data.

    Raises:
        WireError: anything that `encode` does not write.
    """
    return Reader(plain).value(document, 0)


class Reader:
    """Reads one message and counts what it holds.

    Each kind has a method, which gets what the document holds for it, how deep that is,
    and the document's other fields.
    """

    def __init__(self, plain: bool):
        self.plain = plain
        self.left = dict(MOST)

    def spend(self, number: int, what: str) -> None:
        self.left[what] -= number
        require(self.left[what] >= 0, f"more than {MOST[what]} {what}")

    def value(self, document: Any, depth: int) -> Any:
        self.spend(1, "items")
        require(depth <= MAX_DEPTH, f"more than {MAX_DEPTH} levels")
        if document is None or isinstance(document, bool | float):
            return document
        if isinstance(document, int):
            require(document.bit_length() <= MAX_BITS, "too large a number")
            return document
        if isinstance(document, str):
            self.spend(len(document), "characters")
            return document
        require(isinstance(document, dict), "a list where a value belongs")
        (kind, content), *others = [*document.items()] or [("", None)]
        require(kind in KINDS, "a value of an unknown kind")
        others = dict(others)
        require(others.keys() <= set(FIELDS.get(kind, ())), "unknown fields")
        return getattr(self, kind)(content, depth + 1, **others)

    def list(self, items: Any, depth: int) -> list:
        require(type(items) is list, "no list")
        return [self.value(item, depth) for item in items]

    def tuple(self, items: Any, depth: int) -> tuple:
        return tuple(self.list(items, depth))

    def dict(self, pairs: Any, depth: int) -> dict:
        found = {}
        require(type(pairs) is list and len(pairs) <= MAX_KEYS, "no pairs, or too many")
        for pair in pairs:
            require(type(pair) is list and len(pair) == 2, "no pair")
            key = self.value(pair[0], depth)
            kinds = None | bool | int | float | str | bytes | tuple
            require(isinstance(key, kinds), "a key that is no plain value")
            require(len(str(key)) <= MAX_KEY, "a long key")
            try:
                hash(key)
            except TypeError:
                raise WireError("The answer holds a key that has no hash.") from None
            found[key] = self.value(pair[1], depth)
        return found

    def array(self, name: Any, depth: int, shape: Any = None, **others: Any) -> Any:
        flags = others.keys() & {"on_device", "scalar"}
        require(name in DTYPES, "an unknown dtype")
        fits = type(shape) is list and len(shape) <= 16
        require(fits and all(type(n) is int and 0 <= n < 2**31 for n in shape), "shape")
        require(all(others[flag] is True for flag in flags), "an unknown flag")
        require(not (self.plain and flags), "an array that is not the host's")
        dtype = np.dtype(jax.numpy.dtype(name))
        if "data" not in others:
            require(not self.plain and "scalar" not in flags, "an array without data")
            return jax.ShapeDtypeStruct(tuple(shape), dtype)
        data = np.frombuffer(self.bytes(others["data"], depth), np.uint8)
        size = math.prod(shape) * dtype.itemsize
        require(data.size == size, f"{data.size} bytes where its shape needs {size}")
        require(name != "bool" or not (data > 1).any(), "a truth value above 1")
        require("scalar" not in flags or not shape, "a number with a shape")
        try:
            value = data.view(dtype).reshape(shape).copy()
            if "on_device" in flags:
                return jax.numpy.asarray(value)
            return value[()] if "scalar" in flags else value
        except (ValueError, OverflowError):  # no bytes, and a shape beyond bounds
            raise WireError("The answer holds a shape beyond bounds.") from None

    def key(self, name: Any, depth: int, data: Any = None) -> Any:
        data = self.value(data, depth)
        known = isinstance(name, str) and name in KEYS
        require(known and not self.plain, "an unknown key")
        kinds = jax.Array | np.ndarray | jax.ShapeDtypeStruct
        require(isinstance(data, kinds), "a key without data")
        wrap = functools.partial(jax.random.wrap_key_data, impl=KEYS[name])
        try:
            if not isinstance(data, jax.ShapeDtypeStruct):
                return wrap(jax.numpy.asarray(data))
            whole = jax.eval_shape(wrap, data)
            return jax.ShapeDtypeStruct(whole.shape, whole.dtype)
        except (TypeError, ValueError):
            raise WireError("The answer holds a key with other data.") from None

    def opaque(self, name: Any, depth: int) -> Opaque:
        require(isinstance(name, str), "no name")
        return Opaque(name[:200])

    def complex(self, parts: Any, depth: int) -> complex:
        fits = type(parts) is list and [type(part) for part in parts] == [float, float]
        require(fits, "no complex number")
        return complex(*parts)

    def bytes(self, text: Any, depth: int) -> bytes:
        require(isinstance(text, str), "no bytes")
        self.spend(len(text.rstrip("=")) * 3 // 4, "bytes")
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise WireError("The answer holds damaged bytes.") from None


def encode_observation(seen: Observation) -> dict[str, Any]:
    """Writes what a call did; a value that cannot be sent is named instead."""
    layout = {
        path: [[s.device, [list(bounds) for bounds in s.index]] for s in pieces]
        for path, pieces in seen.layout.items()
    }
    try:
        value = encode(seen.value)
        decode(value, plain=True)  # what is too long or too deep here is so there
        require(sum(map(len, layout.values())) <= MAX_ITEMS, "too many shards")
    except (WireError, RecursionError) as error:
        named = f"{type(seen.value).__name__} ({str(error)[:80]})"
        value, layout = encode(Opaque(named)), {}
    error = seen.error and {
        "kinds": [str(kind)[:200] for kind in seen.error.kinds][:20],
        "trace": [line[:MAX_TRACE_LINE] for line in seen.error.trace[-MAX_TRACE:]],
        **{name: getattr(seen.error, name)[:most] for name, most in ERROR_TEXT.items()},
    }
    return {
        "value": value,
        "layout": layout,
        "error": error,
        "printed": seen.printed[:4000],
        "changed": list(seen.changed),
        "num_compiles": seen.num_compiles,
    }
