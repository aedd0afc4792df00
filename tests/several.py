"""A tiny lesson whose first exercise has four statements, two of them hidden cases'."""

import tiny

MARK = '@visible("double", points=1, essential=["twice"])'
OTHERS = ("negative numbers", "fractions", "arrays")  # each is worth a third of a point
CHECKS = tiny.changed(
    tiny.CHECKS,
    ('"""Checks of a tiny lesson."""\n', '"""Checks."""\n\nimport numpy as np\n'),
    (
        "from coursekit.learner",
        "from coursekit.hidden_cases import Case\nfrom coursekit.learner",
    ),
    (
        "from coursekit.outcomes import statement\n",
        "from coursekit.outcomes import statement\n"
        "from coursekit.reference_checks import expect_like_solution\n",
    ),
    (MARK, f'@visible("double", points=2, essential=["twice"], others={[*OTHERS]})'),
    (
        "        expect_close(observe(double, 3), 6)\n",
        "        expect_close(observe(double, 3), 6)\n"
        '    with statement("negative numbers"):\n'
        "        expect_close(observe(double, -3), -6)\n",
    ),
    (
        '    with statement("twice"):\n'
        "        expect_close(observe(double, -7), -14)\n",
        """\
    def cases(rng):
        yield Case(4)
        yield Case(1.5, statements="fractions")
        yield Case(rng.uniform(1, 2, 3).astype(np.float32), statements="arrays")

    expect_like_solution(
        double,
        cases,
        value="twice",
        free={"error layout collectives sent arrays compiles arguments": "no matter"},
    )
""",
    ),
)
TEXT = (
    "# - [twice] `double(x)` returns twice `x`.\n",
    "# - [twice] `double(x)` returns twice `x`:\n#\n"
    "# - [negative numbers] also of negative numbers;\n"
    "# - [fractions] of fractions;\n"
    "# - [arrays] and of arrays, element by element.\n",
)
# Answers, and what each gets of 2 points.
RIGHT = "def double(x):\n    return x + x"
NO_FRACTIONS = "def double(x):\n    return x // 1 * 2 if type(x) is float else x + x"
POSITIVE = "def double(x):\n    return 2 * abs(x)"
TWO_FAIL = (
    "def double(x):\n    return 2 * abs(int(x)) if type(x) in (int, float) else x + x"
)
WRONG = "def double(x):\n    return x"
POINTS = {RIGHT: 2, NO_FRACTIONS: 1.67, POSITIVE: 1.67, TWO_FAIL: 1.33, WRONG: 0}


def lesson(root, *changes, **options):
    """Writes the course and reads its lesson; see `tiny.lesson`."""
    return tiny.lesson(root, TEXT, *changes, **{"checks": CHECKS, **options})
