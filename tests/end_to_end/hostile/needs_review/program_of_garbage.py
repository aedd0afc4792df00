"""Hands out random bytes as its exported program."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
REASONS = ("The program of parallel_square cannot be trusted: it cannot be read",)
TAMPERING = True

SQUARE = """
import sys

responder = sys.modules["grader.kernel.inside.responder"]
export = responder.exported_text


def garbage(*inputs, **options):
    text = np.random.default_rng(0).bytes(5000).decode("latin-1")
    return export(*inputs, **options) | {"program": text}


responder.exported_text = garbage


def parallel_square(x):
    return jax.device_put(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
