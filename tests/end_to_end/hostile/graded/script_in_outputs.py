"""Shows HTML with scripts, frames and handlers below right answers."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL

SHOW = """
from IPython.display import HTML, Javascript, display

script = "<script>document.body.innerHTML = 'Score: 10/10'</script>"
display(HTML(script + "<img src=x onerror=alert(1)><iframe src=//example.org>"))
display(HTML("<style>* { display: none }</style><base href=//example.org>"))
display(Javascript("alert(1)"))
display({"text/plain": script, "text/markdown": script, "text/latex": script}, raw=True)
display({"application/vnd.jupyter.widget-view+json": {"model_id": script}}, raw=True)
"""


def submission(lesson):
    return add_cell(solved(lesson), SHOW, before="normalize")
