"""Asks for a turn by the one of the microbatch before: too deep for a thousand.

Told: none
Fails: a schedule
"""


def one_f_one_b(num_stages, num_microbatches):
    first = {"F": lambda s: s, "B": lambda s: 2 * num_stages - 1 - s}

    def tick_of(kind, m, s):
        return tick_of(kind, m - 1, s) + 2 if m else first[kind](s)

    ticks = 1 + tick_of("B", num_microbatches - 1, 0)
    schedule = [[None] * num_stages for _ in range(ticks)]
    for m in range(num_microbatches):
        for s in range(num_stages):
            for kind in "FB":
                schedule[tick_of(kind, m, s)][s] = kind, m
    return schedule
