"""Lets a stage use what its neighbour makes in the same tick.

Told: none
Fails: what comes before; ticks
"""


def one_f_one_b(num_stages, num_microbatches):
    fs, bs, schedule = [0] * num_stages, [0] * num_stages, []
    while bs[0] < num_microbatches:
        tick = []
        for s in range(num_stages):
            ready = fs[s] if s == num_stages - 1 else bs[s + 1]
            arrived = num_microbatches if s == 0 else fs[s - 1]
            if bs[s] < ready:
                tick.append(("B", bs[s]))
                bs[s] += 1
            elif fs[s] < arrived and fs[s] - bs[s] < num_stages - s:
                tick.append(("F", fs[s]))
                fs[s] += 1
            else:
                tick.append(None)
        schedule.append(tick)
    return schedule
