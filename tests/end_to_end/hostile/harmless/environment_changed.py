"""Changes and deletes variables of the environment."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

CHANGES = """
import locale
import os

os.environ["HOME"] = "/nowhere"
os.environ["PYTHONPATH"] = "/nowhere"
os.environ["TZ"] = "Asia/Tokyo"
os.environ["TMPDIR"] = "/nowhere"
os.environ.pop("PATH", None)
os.environ.pop("LANG", None)
locale.setlocale(locale.LC_ALL, "C")
"""


def submission(lesson):
    return add_cell(solved(lesson), CHANGES)
