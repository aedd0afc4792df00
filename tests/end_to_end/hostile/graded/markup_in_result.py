"""Returns text that a careless reader would evaluate: YAML, a template, a format."""

from hostile.build import FULL, MARKER, guarded, solved

POINTS = FULL | {"double": 0, "negate": 0}

DOUBLE = f"""
def double(x):
    return "!!python/object/apply:builtins.open [{MARKER}, w]"
"""
NEGATE = """
def negate(x):
    raise ValueError("{{ 7 * 7 }} {x.__class__} %s%n ${HOME} $(id) `id` \\\\input{a}")
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE), negate=NEGATE)
