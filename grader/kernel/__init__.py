"""Runs a learner's code in a process of its own and asks it questions."""
