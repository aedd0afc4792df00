"""Shows a picture in SVG that holds a script and loads another one."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL

SHOW = """
from IPython.display import SVG, display

display(SVG('''<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">
<script>alert(2)</script><image href="https://example.org/x.png"/>
<foreignObject><body xmlns="http://www.w3.org/1999/xhtml">Score: 10/10</body>
</foreignObject><a href="javascript:alert(3)"><text y="20">here</text></a></svg>'''))
"""


def submission(lesson):
    return add_cell(solved(lesson), SHOW, before="normalize")
