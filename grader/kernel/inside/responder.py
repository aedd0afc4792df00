"""The learner's half of `observe`: runs in the learner's process and reports on it.

It holds no secret. The judge reads its reports as untrusted input, and runs exported
programs itself.
"""

from __future__ import annotations

import functools
import io
import json
import os
import random
import sys
import warnings
from typing import Any

import jax
import numpy as np
from IPython import get_ipython
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from coursekit.observation import Opaque
from coursekit.observe import failure, observe, on_devices
from coursekit.tracing import program_of, tracing

from . import wire
from .compiled_programs import free_compiled_programs

REPLY = "application/x-course-answer+json"
MAX_PROGRAM = 2**23


class Settings:
    """What code can change for the whole process, as it was right after the set-up."""

    def __init__(self):
        self.environment = dict(os.environ)
        self.folder = os.getcwd()
        self.jax = dict(jax.config.values)
        self.filters = list(warnings.filters)
        self.recursion = sys.getrecursionlimit()
        self.streams = sys.stdout, sys.stderr

    def restore(self) -> None:
        """Restores everything, and seeds the random number generators."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        for name, value in jax.config.values.items():
            if name in self.jax and self.jax[name] != value:
                jax.config.update(name, self.jax[name])
        warnings.filters[:] = self.filters
        sys.setrecursionlimit(self.recursion)
        sys.stdout, sys.stderr = (
            io.StringIO() if stream.closed else stream for stream in self.streams
        )
        random.seed(0)
        np.random.seed(0)


settings = Settings()


def answer(question: str, *, begins: bool = False) -> None:
    """Publishes the answer to one question, a JSON object, as a display message.

    If a check `begins` with it, the programs of the checks before are freed.
    """
    if begins:
        free_compiled_programs()
    asked = json.loads(question)
    settings.restore()
    name = asked["function"]
    function = get_ipython().user_ns.get(name)
    if function is None:
        reply = {"missing": name}
    else:
        ask = program if asked["ask"] == "program" else call
        if asked["axis"] is not None:
            function = on_devices(function, asked["axis"])
        reply = ask(function, wire.decode(asked["arguments"]))
    reply["id"] = asked["id"]
    get_ipython().display_pub.publish({REPLY: json.dumps(reply)})


def call(function: Any, arguments: list) -> dict[str, Any]:
    """Calls the function; reports what happened, and its arguments as they are then."""
    after: list[Any] = []

    @functools.wraps(function)
    def watched(*inputs):
        after[:] = inputs
        return function(*inputs)

    try:
        seen = observe(watched, *arguments)
    except BaseException as error:  # a value that cannot even be looked at
        error = failure(error, function)
        return {"unreadable": f"{error.kinds[0]}: {error.message[:200]}"}
    return {
        "seen": wire.encode_observation(seen),
        "after": [encoded(argument) for argument in after],
    }


def encoded(argument: Any) -> Any:
    """Encodes an argument, which the function may have changed to anything."""
    try:
        return wire.encode(argument)
    except (wire.WireError, RecursionError):
        return wire.encode(Opaque(type(argument).__name__))


def program(function: Any, arguments: list) -> dict[str, Any]:
    """Exports the traced program, for shapes alone, and its result's structure."""
    run, arrays = program_of(function, arguments)
    places: list[Any] = []

    def flat(*blocks):
        result = run(*blocks)
        found: list[Any] = []
        places[:] = [template(result, found)]
        return tuple(found)

    try:
        with tracing(function):
            jitted = jax.jit(flat, keep_unused=True)
            exported = jax.export.export(jitted, platforms=["cpu"])(*arrays)
        data = exported.mlir_module_serialized
        with mlir.make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, data)
            # Without the lines of source code that it comes from.
            text = module.operation.get_asm(enable_debug_info=False)
        if len(text) > MAX_PROGRAM:
            return {"refused": f"the program has {len(text)} characters"}
        result = wire.encode(places[0])
        wire.decode(result, plain=True)  # raises for what the judge would refuse
        return {"program": text, "result": result}
    except BaseException as error:  # tracing runs the learner's code
        error = failure(error, function)
        return {"refused": f"{error.kinds[0]}: {error.message[:1000]}"}


def template(value: Any, found: list) -> Any:
    """Copies a result's structure, with `Opaque("leaf N")` for its N-th array."""
    if isinstance(value, dict):
        return {key: template(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [template(item, found) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        found.append(jax.random.key_data(value) if is_key else value)
        return Opaque(f"leaf {len(found) - 1}")
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    return Opaque(type(value).__name__)
