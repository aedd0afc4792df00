"""A valid notebook of 200 MB: a stale output that nobody cleared."""

from hostile.build import add_cell, dumps, output, solved

POINTS = {}
PLACE = b"one long line"


def submission(lesson):
    notebook = add_cell(solved(lesson), "print(log)", before=None)
    notebook.cells[-1].outputs = [output(name="stdout", text=PLACE.decode())]
    before, after = dumps(notebook).split(PLACE)

    def put(folder):
        with open(folder / "01_tiny.ipynb", "wb") as file:
            file.write(before)
            for _ in range(200):
                file.write(b"x" * 10**6)
            file.write(after)

    return put
