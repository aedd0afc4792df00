"""What the set-up and the checks say, in the language "ko"."""

# Written by `python -m grader build` out of solutions/locales.
# fmt: off
MESSAGES = {}
