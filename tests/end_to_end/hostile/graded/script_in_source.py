"""Code and text cells full of markup, which a page that shows them must not obey."""

import nbformat
from hostile.build import FULL, solved

POINTS = FULL

DOUBLE = '''
# </code></pre></textarea></title></script><script>alert("source")</script> {{ 7 * 7 }}
def double(x):
    """<img src=x onerror=alert(1)> ]]> --> \\x1b[2J &lt;b&gt; %3Cscript%3E"""
    return x + x
'''


def submission(lesson):
    notebook = solved(lesson, double=DOUBLE)
    text = '<script>alert(1)</script>\n\n[x](vbscript:x) <svg onload="alert(1)">'
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    return notebook
