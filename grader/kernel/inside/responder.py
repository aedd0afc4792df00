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
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from IPython import get_ipython
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from coursekit.observation import Opaque, plain
from coursekit.observe import failure, observe, on_devices
from coursekit.tracing import Untraceable, exported, reason

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
    settings.restore()
    answered = reply(json.loads(question), get_ipython().user_ns)
    get_ipython().display_pub.publish({REPLY: json.dumps(answered)})


def reply(question: dict[str, Any], functions: Mapping[str, Any]) -> dict[str, Any]:
    """Answers a question about one of `functions`."""
    name = question["function"]
    function = functions.get(name)
    if function is None:
        found = {"missing": name}
    else:
        ask = program if question["ask"] == "program" else call
        if question["axis"] is not None:
            function = on_devices(function, question["axis"])
        found = ask(function, wire.decode(question["arguments"]))
    return found | {"id": question["id"]}


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
    """Encodes an argument, which the function may have changed, or donated."""
    try:
        return wire.encode(plain(argument))
    except (wire.WireError, RecursionError):
        return wire.encode(Opaque(type(argument).__name__))


def program(function: Any, arguments: list) -> dict[str, Any]:
    """Exports the traced program, for shapes alone, and its result's structure."""
    try:
        program, result = exported(function, arguments)
        data = program.mlir_module_serialized
        with mlir.make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, data)
            # Without the lines of source code that it comes from.
            text = module.operation.get_asm(enable_debug_info=False)
        if len(text) > MAX_PROGRAM:
            return {"refused": f"the program has {len(text)} characters"}
        structure = wire.encode(result)
        wire.decode(structure, plain=True)  # raises for what the judge would refuse
        kept = [*program.module_kept_var_idx]  # of the inputs, those that matter
        return {"program": text, "result": structure, "kept": kept}
    except Untraceable as error:
        return {"refused": str(error)}
    except BaseException as error:  # whatever the learner's code left behind
        return {"refused": reason(error)}
