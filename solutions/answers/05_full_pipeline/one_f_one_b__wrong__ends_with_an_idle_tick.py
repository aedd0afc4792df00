"""Adds a tick in which nobody works.

Told: none
Fails: ticks
"""


def one_f_one_b(num_stages, num_microbatches):
    schedule = [[None] * num_stages for _ in range(2 * (num_microbatches + num_stages))]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = "F", m
            schedule[2 * num_stages - 1 - s + 2 * m][s] = "B", m
    return schedule[:-1]
