"""Goes tick by tick: backward where it can, else forward where it may."""


def one_f_one_b(num_stages, num_microbatches):
    fs, bs, schedule = [0] * num_stages, [0] * num_stages, []
    while bs[0] < num_microbatches:
        f_done, b_done = list(fs), list(bs)  # of earlier ticks
        tick = []
        for s in range(num_stages):
            last = s == num_stages - 1
            ready = f_done[s] if last else b_done[s + 1]
            arrived = num_microbatches if s == 0 else f_done[s - 1]
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
