"""Takes a microbatch through all stages and back before the next.

Told: none
Fails: ticks
"""


def one_f_one_b(num_stages, num_microbatches):
    schedule = []
    for m in range(num_microbatches):
        for s in range(num_stages):
            schedule.append([("F", m) if s == t else None for t in range(num_stages)])
        for s in reversed(range(num_stages)):
            schedule.append([("B", m) if s == t else None for t in range(num_stages)])
    return schedule
