"""Keeps class folders working whose settings were written before December 2026."""

from grader.classroom.nbgrader_plugin import GradingExporter

__all__ = ["GradingExporter"]
