"""Runs another program in its process, which answers all questions with NumPy.

It says of each row of a result that it is on a device of its own. Right numbers are
right, whichever program computes them.
"""

from hostile.build import FULL, SERVES, guarded, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

PROGRAM = """
import ast
import base64
import json
import os
import struct
import sys

import numpy as np

REQUEST, FRAME = struct.Struct(">I?I"), struct.Struct(">cII")
pipe, replies, cell = map(int, sys.argv[1:])


def send(kind, found=None):
    text = json.dumps(found).encode() if found else b""
    os.write(replies, FRAME.pack(kind, cell, len(text)) + text)


def answer(asked):
    if asked["ask"] == "program":
        return {"refused": "it cannot be traced"}
    value, error, layout = asked["arguments"]["list"][0], None, {}
    x = value
    if isinstance(value, dict):
        data = base64.b64decode(value["data"])
        x = np.frombuffer(data, value["array"]).reshape(value["shape"])
    name = asked["function"]
    if name == "normalize" and not len(x):
        message, kinds = "0 rows", ["ValueError", "Exception", "BaseException"]
        error = {"message": message, "function": "", "kinds": kinds, "trace": []}
    elif name == "normalize":
        x = x - x.mean(axis=0)
    elif name == "parallel_square":
        x, rest = x * x, [[0, size] for size in x.shape[1:]]
        layout = {"": [[row, [[row, row + 1], *rest]] for row in range(len(x))]}
    else:
        x = {"double": 2, "check_doubled_twice": 4, "negate": -1}[name] * x
    if isinstance(value, dict):
        data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
        x = {"array": str(x.dtype), "shape": list(x.shape), "data": data}
    seen = {"value": None if error else x, "layout": layout, "error": error}
    seen |= {"printed": "", "changed": [], "num_compiles": 0}
    return {"seen": seen, "after": asked["arguments"]["list"]}


os.set_blocking(pipe, True)
send(b"d")
while header := os.read(pipe, REQUEST.size):
    cell, _, size = REQUEST.unpack(header)
    source = b""
    while len(source) < size:
        source += os.read(pipe, size - len(source))
    if b".answer(" in source:
        asked = json.loads(ast.parse(source).body[0].value.args[0].value)
        send(b"r", answer(asked) | {"id": asked["id"]})
    send(b"d")
"""
START = f"""

ends = pipe_of_requests(), channel.descriptor
for end in ends:
    os.set_inheritable(end, True)
numbers = [str(number) for number in (*ends, channel.cell)]
os.execv(sys.executable, [sys.executable, "-c", {PROGRAM!r}, *numbers])
"""


def submission(lesson):
    wrong = dict.fromkeys(("normalize", "parallel_square", "negate"), "answer = None")
    return solved(lesson, **wrong, double=guarded(SERVES + START))
