"""Runs in the learner's process: imports nothing of the grader from elsewhere."""
