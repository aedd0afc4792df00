"""Runs a cell and reads what it prints, which the grader itself drops."""

from grader.kernel.inside.frames import REPLY_TYPE

BEGIN = """
from IPython.utils.io import capture_output as _capture
_capture = _capture(display=False)
_captured = _capture.__enter__()
"""
END = f"""
_capture.__exit__(None, None, None)
get_ipython().display_pub.publish(
    {{{REPLY_TYPE!r}: _captured.stdout + _captured.stderr}}
)
"""


def run(session, code):
    """Returns the cell's result, with what it printed as `text`."""
    assert not session.run(BEGIN).error
    result = session.run(code)
    [result.text] = session.run(END).replies
    return result
