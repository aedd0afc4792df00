"""Starts hundreds of processes that compute for ever, in each of its answers."""

from hostile.build import NOTHING, guarded, solved

POINTS = NOTHING
SLOW = True

BUSY = """
def {name}(*arguments):
    for _ in range(300):
        if not os.fork():
            while True:
                pass
    while True:
        pass
"""


def submission(lesson):
    answers = {name: guarded(BUSY.format(name=name)) for name in POINTS}
    return solved(lesson, **answers)
