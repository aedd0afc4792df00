"""Gives a list for each stage in place of one for each tick.

Told: none
Fails: a schedule
"""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * ticks for _ in range(num_stages)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s][s + 2 * m] = "F", m
            schedule[s][2 * num_stages - 1 - s + 2 * m] = "B", m
    return schedule
