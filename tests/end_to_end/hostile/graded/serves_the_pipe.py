"""Serves the grader's pipe in a cell that never ends, and reports what it wants."""

from hostile.build import NOTHING, SERVES, attack, guarded

POINTS = NOTHING | {"negate": 4}
BELIEVED = {"normalize": 2}
TAMPERING = True

LOOP = """

channel.send(b"d")  # this cell has ended
serve(pipe_of_requests())
"""
SQUARE = """
def parallel_square(x):
    return jnp.square(x)
"""


def submission(lesson):
    answers = {"normalize": guarded(SERVES + LOOP), "parallel_square": SQUARE}
    return attack(lesson, "negate", "serve", **answers)
