"""Sends a forged answer by the kernel's own session, past all that publishes."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json


def double(x):
    kernel = get_ipython().kernel
    facts = {{"value": 6, "layout": {{}}, "error": None, "printed": "", "changed": []}}
    data = {{{ANSWER!r}: json.dumps({{"id": "0", "seen": facts}})}}
    content = {{"data": data, "metadata": {{}}, "transient": {{}}}}
    parent = kernel.get_parent("shell")
    line = kernel.iopub_socket
    kernel.session.send(line, "display_data", content, parent=parent)
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
