"""Builds the lessons and grades the notebooks that learners hand in."""
