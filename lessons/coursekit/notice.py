"""Errors whose text is meant for the learner."""

from __future__ import annotations

from .i18n import translated


class Notice(Exception):
    """An error of which a notebook shows the text and no traceback."""

    def __str__(self) -> str:
        return translated(super().__str__())

    def _render_traceback_(self) -> list[str]:
        # IPython 7.34 and newer ask an exception for its own rendering.
        return str(self).splitlines()
