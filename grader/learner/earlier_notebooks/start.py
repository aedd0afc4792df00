"""What notebooks made before December 2026 import first: it tells what to do."""

from __future__ import annotations


class EarlierNotebook(Exception):
    """An error meant for the learner: notebooks show its text and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


raise EarlierNotebook(
    "This notebook is of an earlier version of the course. Open the lesson in lessons/ "
    "and copy your answers into it; handed in, this one is still graded."
)
