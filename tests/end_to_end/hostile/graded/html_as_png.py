"""Says that a page with a script is a PNG."""

from hostile.build import FULL, solved

POINTS = FULL

DOUBLE = """
import base64

from IPython.display import display

page = base64.b64encode(b"<script>alert(1)</script>" * 10).decode()
display({"image/png": page}, raw=True)
display({"image/png": '"><script>alert(2)</script>'}, raw=True)
display({"image/jpeg": page, "image/png": ["no", "text"]}, raw=True)


def double(x):
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
