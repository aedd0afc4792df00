"""Shows a picture of 60 kB that unpacks to 400 million dots."""

from hostile.build import FULL, guarded, solved

POINTS = FULL

DOUBLE = """
import base64
import struct
import zlib

from IPython.display import display


def chunk(kind, data):
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


side = 20_000
packer = zlib.compressobj(9)
rows = [packer.compress(bytes(1 + side // 8)) for _ in range(side)]
data = b"".join([*rows, packer.flush()])
header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
png = chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
text = base64.b64encode(b"\\x89PNG\\r\\n\\x1a\\n" + png).decode()
display({"image/png": text}, raw=True)


def double(x):
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
