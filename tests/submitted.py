"""Makes what learners submit: answers, notebooks' bytes and archives."""

import io
import json
import zipfile

ANSWERS = {
    "double": "# exercise: double\ndef double(x):\n    return x + x",
    "negate": "# exercise: negate\ndef negate(x):\n    return 0 - x",
}
MONDAY, FRIDAY = (2024, 5, 6, 9, 0, 0), (2024, 5, 10, 9, 0, 0)


def data_of(facts) -> bytes:
    return json.dumps(facts, indent=1).encode()


def cell(facts, name):
    """Finds a cell by its id: `double`, `check-double`, `setup`."""
    return next(c for c in facts["cells"] if c["id"] == name)


def zipped(
    contents, *, when=MONDAY, mode=0, method=zipfile.ZIP_DEFLATED, comment=b""
) -> bytes:
    """Makes an archive; a value may be (data, when)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = comment
        for name, data in contents.items():
            data, changed = data if isinstance(data, tuple) else (data, when)
            info = zipfile.ZipInfo(name, changed)
            info.external_attr = mode << 16
            archive.writestr(info, data, method)
    return buffer.getvalue()


def encrypted(data: bytes) -> bytes:
    """Marks an archive's entry as encrypted."""
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(signature) + offset
        data = data[:place] + bytes([data[place] | 1]) + data[place + 1 :]
    return data
