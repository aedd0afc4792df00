"""Numbers the stages from the last.

Told: none
Fails: what comes before; few are kept
"""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][-1 - s] = "F", m
            schedule[2 * num_stages - 1 - s + 2 * m][-1 - s] = "B", m
    return schedule
