"""A file name in bytes that are no UTF-8: an old archive tool wrote it."""

import os

from hostile.build import FULL, dumps, solved

POINTS = FULL


def submission(lesson):
    def put(folder):
        path = os.fsencode(folder) + b"/\xdcbung_1.ipynb"
        with open(path, "wb") as file:
            file.write(dumps(solved(lesson)))

    return put
