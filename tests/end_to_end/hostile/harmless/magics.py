"""Magic lines and shell lines that tutorials put first."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

MAGICS = """
%matplotlib inline
%config InlineBackend.figure_format = "retina"
%load_ext autoreload
%autoreload 2
%env MY_SETTING=1
!nvidia-smi
!ls -la
%timeit -n 2 -r 2 sum(range(10))
?print
"""


def submission(lesson):
    notebook = add_cell(solved(lesson), MAGICS)
    add_cell(notebook, 'get_ipython().run_line_magic("matplotlib", "inline")')
    return add_cell(notebook, "%%bash\necho hello")
