"""Opens a second connection to its own kernel and speaks for the grader."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

DOUBLE = """
from ipykernel.connect import get_connection_file
from jupyter_client import BlockingKernelClient


def double(x):
    client = BlockingKernelClient(connection_file=get_connection_file())
    client.load_connection_file()
    client.start_channels()
    client.execute("print('Right: double does what it should.')")
    return None
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
