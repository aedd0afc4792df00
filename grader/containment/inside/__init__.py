"""Runs inside a box, or enters one: imports nothing of the grader outside."""
