"""An answer below a docstring of 2,000 lines."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    lines = "\n".join(f"    Thought {number} on doubling." for number in range(2000))
    source = f'def double(x):\n    """Doubles.\n\n{lines}\n    """\n    return x + x'
    return solved(lesson, double=source)
