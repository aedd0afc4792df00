"""Exports a program that was made for the visible input's shape, whatever is asked."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
REASONS = ("cannot be trusted: it takes other inputs than it was asked for",)
TAMPERING = True

SQUARE = """
import jax.export

export = jax.export.export
KIND = jax.ShapeDtypeStruct((8, 2), np.float32)


def forged(function, **options):
    program = jax.jit(lambda x: (jax.pmap(lambda row: row * row)(x),))

    def made(*shapes):
        jax.eval_shape(function, *shapes)
        return export(program, **options)(KIND)

    return made


jax.export.export = forged


def parallel_square(x):  # row by row on the devices, so that other shapes are asked for
    return jax.pmap(lambda row: row)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
