"""A picture of 10 MB in an output and one in a text cell's attachment."""

import base64
import random

import nbformat
from hostile.build import FULL, add_cell, output, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = add_cell(solved(lesson), "plt.show()", before=None)
    noise = b"\x89PNG\r\n\x1a\n" + random.Random(0).randbytes(7_500_000)
    data = {"image/png": base64.b64encode(noise).decode()}
    notebook.cells[-1].outputs = [output("display_data", data=data)]
    text = nbformat.v4.new_markdown_cell("![me](attachment:me.png)", id="text")
    small = {"image/png": base64.b64encode(noise[:1000]).decode()}
    text.attachments = {"me.png": small}
    notebook.cells.append(text)
    return notebook
