"""Another lesson's notebook, saved under this lesson's name."""

import nbformat

POINTS = {}

ANSWER = "# exercise: ring_shift\ndef ring_shift(x):\n    return x[::-1]"
CHECK = 'check("ring_shift")'


def marks(name, *, solution):
    facts = {"grade": not solution, "grade_id": name, "solution": solution}
    facts |= {"locked": not solution, "schema_version": 3, "task": False}
    return {"nbgrader": facts if solution else facts | {"points": 2}}


def submission(lesson):
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell("# Lesson 2. Collectives"),
        v4.new_code_cell(ANSWER, metadata=marks("ring_shift", solution=True)),
        v4.new_code_cell(CHECK, metadata=marks("check-ring_shift", solution=False)),
    ]
    return v4.new_notebook(cells=cells)
