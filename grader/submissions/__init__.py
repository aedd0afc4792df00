"""Turns what learners hand in, whatever it is, into answers that can be graded."""
