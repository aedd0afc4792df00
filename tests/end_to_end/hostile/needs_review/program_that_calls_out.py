"""Exports a call into code of the machine that runs the program."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
import functools

import jax.export

TARGET = "course_corpus_no_such_target"
allowed = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
jax.export.export = functools.partial(jax.export.export, disabled_checks=allowed)


def parallel_square(x):
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call(TARGET, kind, has_side_effect=True)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
