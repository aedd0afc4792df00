"""A log-in page saved as .ipynb: the session ran out before the download."""

POINTS = {}

PAGE = b"""\
<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><form action="/login" method="post"><input name="user"></form>
<script>alert("not in the feedback")</script></body></html>
"""


def submission(lesson):
    return PAGE
