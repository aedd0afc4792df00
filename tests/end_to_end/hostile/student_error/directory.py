"""A folder that is named like the notebook."""

from hostile.build import named, solved

POINTS = {}


def submission(lesson):
    def put(folder):
        (folder / "01_tiny.ipynb").mkdir()
        named("notebook.ipynb", solved(lesson))(folder / "01_tiny.ipynb")

    return put
