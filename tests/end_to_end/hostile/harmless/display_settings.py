"""Sets how arrays and plots look, and shows numbers in another form."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

SETTINGS = """
import matplotlib as mpl
import matplotlib.pyplot as plt

np.set_printoptions(precision=1, threshold=3, formatter={"all": lambda x: "number"})
plt.rcParams["figure.dpi"] = 300
mpl.use("svg")
plt.style.use("dark_background")
get_ipython().display_formatter.formatters["text/plain"].for_type(
    int, lambda number, printer, cycle: printer.text("an integer")
)
"""


def submission(lesson):
    return add_cell(solved(lesson), SETTINGS)
