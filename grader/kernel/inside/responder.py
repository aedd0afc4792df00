"""The learner's half of `observe`: runs in the learner's process and reports on it.

It holds no secret. The judge reads its reports as untrusted input, and runs exported
programs itself. The lesson's functions that call a learner's, such as a training loop,
are in a namespace that no cell of the learner's changes by a definition of that name.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import functools
import gc
import io
import json
import linecache
import os
import random
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from IPython import get_ipython
from jax.extend.mlir.dialects import stablehlo

from coursekit.checks import CheckModule
from coursekit.context import current_context
from coursekit.learner import Missing
from coursekit.observation import Opaque, plain
from coursekit.observe import failure, observe, on_devices, watched
from coursekit.tracing import (
    Untraceable,
    exported,
    ir_context,
    reason,
    without_debugging,
)

from . import wire
from .frames import REPLY_TYPE

MAX_PROGRAM = 2**23
ENOUGH_MIB = 400  # of a process that has imported JAX and holds a lesson: 200 to 330


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


def free_compiled_programs() -> None:
    """Frees all compiled programs if this process takes much memory: it makes hundreds.

    What is used again is compiled or read again.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") < ENOUGH_MIB * 2**20:
            return
    except OSError:  # not Linux
        pass
    jax.clear_caches()
    ir_context.cache_clear()
    gc.collect()
    with contextlib.suppress(AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system


settings = Settings()
given: dict[str, Any] = {}  # the lesson's own functions
exercises: list[str] = []  # what learners write
checks: list[CheckModule] = []  # the lesson's


def define(
    setup: str, definitions: list[str], names: list[str], checks_source: str
) -> None:
    """Defines the lesson's own functions and its checks, apart from a learner's cells.

    The functions that exercises define, of these `names`, are looked up when they are
    called.
    """
    given["__name__"] = "__main__"
    exercises[:] = names
    current_context().namespaces = [get_ipython().user_ns, given]
    with contextlib.redirect_stdout(io.StringIO()):
        for place, source in enumerate([setup, *definitions]):
            file = f"<lesson {place}>"  # where Python looks for the source of functions
            linecache.cache[file] = len(source), None, source.splitlines(True), file
            exec(compile(source, file, "exec"), given)
    checks[:] = [CheckModule(checks_source, "<checks>")]


def functions(learner: dict[str, Any]) -> Mapping[str, Any]:
    """Maps names to what checks ask about: the checks', the lesson's, the learner's."""
    for name in exercises:
        given.pop(name, None)
        if name in learner:
            given[name] = learner[name]
    if not checks:
        return learner
    checks[0].bind(given)
    return collections.ChainMap(checks[0].namespace, given)


def answer(question: str, *, begins: bool = False) -> None:
    """Publishes the answer to one question, a JSON object, as a display message.

    If a check `begins` with it, the programs of the checks before it may be freed.
    """
    if begins:
        free_compiled_programs()
    settings.restore()
    answered = reply(json.loads(question), functions(get_ipython().user_ns))
    get_ipython().display_pub.publish({REPLY_TYPE: json.dumps(answered)})


def reply(question: dict[str, Any], functions: Mapping[str, Any]) -> dict[str, Any]:
    name = question["function"]
    function = functions.get(name)
    if function is None or isinstance(function, Missing):
        found = {"missing": name}
    else:
        arguments, axis = wire.decode(question["arguments"]), question["axis"]
        answered = program if question["ask"] == "program" else call
        with without_debugging(function):  # nobody would read it
            found = answered(function, arguments, axis)
    return found | {"id": question["id"]}


def call(function: Any, arguments: list, axis: str | None) -> dict[str, Any]:
    """Calls the function; reports what happened, and its arguments as they are then."""
    after: list[Any] = []
    changed: set[int] = set()
    if axis is not None:
        function = on_devices(watched(function, changed), axis)

    @functools.wraps(function)
    def noted(*inputs):
        after[:] = inputs
        return function(*inputs)

    try:
        seen = observe(noted, *arguments)
    except BaseException as error:  # a value that cannot even be looked at
        error = failure(error, function)
        return {"unreadable": f"{error.kinds[0]}: {error.message[:200]}"}
    seen = dataclasses.replace(seen, changed=tuple(sorted({*seen.changed, *changed})))
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


def program(function: Any, arguments: list, axis: str | None) -> dict[str, Any]:
    """Exports the traced program, for shapes alone, and its result's structure.

    A call of a mapped function traces it, too, and runs nothing else of its code. So
    where it can be exported as it is, "changed" says which arguments are not what they
    were, and there is nothing that a call could tell.
    """
    if axis is not None:
        changed: set[int] = set()
        function = on_devices(watched(function, changed), axis)
        try:
            found = exported_text(function, arguments, as_it_is=True)
            return found | {"changed": sorted(changed)}
        except (Exception, SystemExit):
            pass  # a call tells why, or does what cannot be exported
    try:
        return exported_text(function, arguments)
    except Untraceable as error:
        return {"refused": str(error)}
    except BaseException as error:  # whatever the learner's code left behind
        return {"refused": reason(error)}


def exported_text(
    function: Any, arguments: list, as_it_is: bool = False
) -> dict[str, Any]:
    program, result = exported(function, arguments, as_it_is)
    module = stablehlo.deserialize_portable_artifact(
        ir_context(), program.mlir_module_serialized
    )
    # Without the lines of source code that it comes from.
    text = module.operation.get_asm(enable_debug_info=False)
    if len(text) > MAX_PROGRAM:
        raise Untraceable(f"the program has {len(text)} characters")
    structure = wire.encode(result)
    wire.decode(structure, plain=True)  # raises for what the judge would refuse
    return {"program": text, "result": structure}
