"""A kernel of the learner's own, which the grading machine does not know."""

from hostile.build import FULL, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    spec = {"name": "adas-env-312", "display_name": "Ada's", "language": "python"}
    notebook.metadata.kernelspec = spec
    notebook.metadata.language_info = {"name": "python", "version": "3.99.0"}
    return notebook
