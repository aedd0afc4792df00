"""Writes turns as texts.

Told: none
Fails: a schedule
"""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[""] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = f"F{m}"
            schedule[2 * num_stages - 1 - s + 2 * m][s] = f"B{m}"
    return schedule
