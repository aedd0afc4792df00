"""Goes backward right after its own forward on every stage.

Told: none
Fails: what comes before
"""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = "F", m
            schedule[s + 2 * m + 1][s] = "B", m
    return schedule
