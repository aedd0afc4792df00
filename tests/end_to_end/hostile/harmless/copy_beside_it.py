"""The solved notebook, and beside it an untouched copy that JupyterLab made."""

from hostile.build import FULL, named, solved

from grader.authoring.release import release

STATUS = "GRADED"
POINTS = FULL
ALSO = ("GRADED_WITH_NOTE",)


def submission(lesson):
    def put(folder):
        named("01_tiny.ipynb", solved(lesson))(folder)
        named("01_tiny-Copy1.ipynb", release(lesson))(folder)

    return put
