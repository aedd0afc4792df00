"""Returns an object whose type's name is 10 MB of markup."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    name = '"<script>alert(1)</script>" * 400_000'
    double = f"def double(x):\n    return type({name}, (), {{}})()"
    return solved(lesson, double=guarded(double))
