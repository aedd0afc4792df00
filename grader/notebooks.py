"""Keeps class folders working whose settings were written before December 2026."""

from grader.classroom.nbgrader_plugin import RELEASE_CONFIG

__all__ = ["RELEASE_CONFIG"]
