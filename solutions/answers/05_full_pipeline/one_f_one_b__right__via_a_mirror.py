"""Plays the forwards backwards: the schedule is its own mirror image."""


def one_f_one_b(num_stages, num_microbatches):
    total = 2 * (num_microbatches + num_stages - 1)
    schedule = []
    for _ in range(total):
        schedule.append([None] * num_stages)
    for m in range(num_microbatches):
        for s in range(num_stages):
            schedule[s + 2 * m][s] = ("F", m)
            mirrored = num_microbatches - 1 - m
            schedule[total - 1 - s - 2 * m][s] = ("B", mirrored)
    return schedule
