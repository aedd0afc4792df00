"""Takes the grader's pipe away from its loop, and serves it in a thread."""

from hostile.build import NOTHING, SERVES, attack, guarded

POINTS = NOTHING | {"negate": 4}
BELIEVED = {"normalize": 2}
TAMPERING = True

THREAD = """

import threading

pipe = pipe_of_requests()
own, (empty, never_written) = os.dup(pipe), os.pipe()
os.dup2(empty, pipe)  # here the loop waits from now on
threading.Thread(target=serve, args=(own,), daemon=True).start()
"""
SQUARE = """
def parallel_square(x):
    return jnp.square(x)
"""


def submission(lesson):
    answers = {"normalize": guarded(SERVES + THREAD), "parallel_square": SQUARE}
    return attack(lesson, "negate", "serve", **answers)
