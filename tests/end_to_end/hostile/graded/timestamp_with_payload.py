"""A timestamp that is no time but markup, a formula and 1 MB of text."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    def put(folder):
        named("01_tiny.ipynb", solved(lesson))(folder)
        text = b"=cmd|'/c calc'!A1 <script>alert(1)</script>\n" * 20_000
        named("timestamp.txt", text)(folder)

    return put
