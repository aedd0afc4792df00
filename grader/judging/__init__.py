"""Runs the checks on a submission in a process that never executes its code."""
