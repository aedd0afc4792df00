"""Shows a picture that says it is two billion dots wide, and one with text in it."""

from hostile.build import FULL, solved

POINTS = FULL

DOUBLE = """
import base64
import struct
import zlib

from IPython.display import display


def chunk(kind, data):
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


for width in (2_147_483_647, 0, 1):
    header = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    note = chunk(b"tEXt", b"Comment\\0<script>alert(1)</script>")
    note += chunk(b"zTXt", b"Comment\\0\\0" + zlib.compress(bytes(10**7)))
    data = chunk(b"IDAT", zlib.compress(b"\\0\\0")) + chunk(b"IEND", b"")
    png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + note + data
    text = base64.b64encode(png + b"<script>alert(2)</script>").decode()
    display({"image/png": text}, raw=True)


def double(x):
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
