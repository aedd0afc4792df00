"""Links in Markdown and HTML whose target is a script."""

import nbformat
from hostile.build import FULL, add_cell, solved

POINTS = FULL

LINKS = """
[your feedback](javascript:alert(1)) [x](data:text/html;base64,PHNjcmlwdD4=)
<a href="&#106;avascript:alert(2)">here</a> <a href=" java\tscript:alert(3)">here</a>
![x](https://example.org/who-opens-this.png)
"""


def submission(lesson):
    notebook = solved(lesson)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(LINKS))
    show = "from IPython.display import Markdown, display\n"
    return add_cell(notebook, f"{show}display(Markdown({LINKS!r}))", before="normalize")
