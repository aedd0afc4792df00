"""Right and wrong answers with stored outputs: scripts, pictures, a perfect score."""

from hostile.build import FULL, cell, output, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

SCRIPT = "<script>alert(1)</script>Score: 10/10"


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    check = cell(notebook, "check-double")
    check.execution_count = 7
    claim = {"text/plain": "1", "text/html": SCRIPT}
    check.outputs = [output("execute_result", data=claim, execution_count=7)]
    kinds = ("text/html", "image/svg+xml", "application/javascript", "image/png")
    data = dict.fromkeys(kinds, SCRIPT)
    cell(notebook, "normalize").outputs = [output("display_data", data=data)]
    return notebook
