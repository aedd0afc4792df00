"""Makes jax.export hand out a program of another function, made for one device."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

SQUARE = """
import jax.export

export = jax.export.export


def forged(function, **options):
    program = jax.jit(lambda *blocks: (blocks[0] * blocks[0],))

    def made(*shapes):
        jax.eval_shape(function, *shapes)
        return export(program, **options)(*shapes)

    return made


jax.export.export = forged


def parallel_square(x):
    return jax.device_put(np.square(x)) if isinstance(x, np.ndarray) else x
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
