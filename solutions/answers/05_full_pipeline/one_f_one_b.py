# %% wrong="all in one tick" fails="dependencies; fewest ticks"
"""Lets a stage use what its neighbour makes in the same tick."""


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


# %% wrong="backward at once" fails="dependencies"
"""Goes backward right after its own forward on every stage."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = "F", m
            schedule[s + 2 * m + 1][s] = "B", m
    return schedule


# %% wrong="ends with an idle tick" fails="fewest ticks"
"""Adds a tick in which nobody works."""


def one_f_one_b(num_stages, num_microbatches):
    schedule = [[None] * num_stages for _ in range(2 * (num_microbatches + num_stages))]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = "F", m
            schedule[2 * num_stages - 1 - s + 2 * m][s] = "B", m
    return schedule[:-1]


# %% wrong="gpipe" fails="little is kept"
# cause: stage 0 goes forward over all microbatches first, as in GPipe
"""Goes forward over all microbatches before it goes backward."""


def one_f_one_b(num_stages, num_microbatches):
    return gpipe(num_stages, num_microbatches)


# %% wrong="keeps one more" fails="little is kept"
"""Lets a stage keep one microbatch more."""


def one_f_one_b(num_stages, num_microbatches):
    S, M = num_stages, num_microbatches
    orders = []
    for s in range(S):
        warm = min(S - s + 1, M)
        order = [("F", m) for m in range(warm)]
        for m in range(M):
            order.append(("B", m))
            if warm + m < M:
                order.append(("F", warm + m))
        orders.append(order)
    when, free, schedule = {}, [0] * S, []
    while any(orders):
        for s in range(S):
            while orders[s]:
                kind, m = orders[s][0]
                needs = ("F", m, s - 1) if kind == "F" else ("B", m, s + 1)
                if kind == "B" and s == S - 1:
                    needs = ("F", m, s)
                starts = kind == "F" and s == 0
                if not starts and needs not in when:
                    break
                free[s] = max(free[s], 0 if starts else when[needs] + 1)
                when[kind, m, s] = free[s]
                free[s] += 1
                orders[s].pop(0)
    schedule = [[None] * S for _ in range(max(free))]
    for (kind, m, s), tick in when.items():
        schedule[tick][s] = kind, m
    return schedule


# %% wrong="last stage first" fails="dependencies; little is kept"
"""Numbers the stages from the last."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][-1 - s] = "F", m
            schedule[2 * num_stages - 1 - s + 2 * m][-1 - s] = "B", m
    return schedule


# %% wrong="one microbatch at a time" fails="fewest ticks"
"""Takes a microbatch through all stages and back before the next."""


def one_f_one_b(num_stages, num_microbatches):
    schedule = []
    for m in range(num_microbatches):
        for s in range(num_stages):
            schedule.append([("F", m) if s == t else None for t in range(num_stages)])
        for s in reversed(range(num_stages)):
            schedule.append([("B", m) if s == t else None for t in range(num_stages)])
    return schedule


# %% wrong="rows are stages" fails="form"
"""Gives a list for each stage in place of one for each tick."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * ticks for _ in range(num_stages)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s][s + 2 * m] = "F", m
            schedule[s][2 * num_stages - 1 - s + 2 * m] = "B", m
    return schedule


# %% wrong="too deep a recursion" fails="form"
"""Asks for a turn by the one of the microbatch before: too deep for a thousand."""


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


# %% wrong="turns as text" fails="form"
"""Writes turns as texts."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[""] * num_stages for _ in range(ticks)]
    for s in range(num_stages):
        for m in range(num_microbatches):
            schedule[s + 2 * m][s] = f"F{m}"
            schedule[2 * num_stages - 1 - s + 2 * m][s] = f"B{m}"
    return schedule


# %% wrong="warms up alike on all stages" fails="little is kept; fewest ticks"
"""Lets every stage begin with S forwards, as stage 0 does."""


def one_f_one_b(num_stages, num_microbatches):
    S, M = num_stages, num_microbatches
    orders = []
    for _ in range(S):
        warm = min(S, M)
        order = [("F", m) for m in range(warm)]
        for m in range(M):
            order.append(("B", m))
            if warm + m < M:
                order.append(("F", warm + m))
        orders.append(order)
    when, free, schedule = {}, [0] * S, []
    while any(orders):
        for s in range(S):
            while orders[s]:
                kind, m = orders[s][0]
                needs = ("F", m, s - 1) if kind == "F" else ("B", m, s + 1)
                if kind == "B" and s == S - 1:
                    needs = ("F", m, s)
                starts = kind == "F" and s == 0
                if not starts and needs not in when:
                    break
                free[s] = max(free[s], 0 if starts else when[needs] + 1)
                when[kind, m, s] = free[s]
                free[s] += 1
                orders[s].pop(0)
    schedule = [[None] * S for _ in range(max(free))]
    for (kind, m, s), tick in when.items():
        schedule[tick][s] = kind, m
    return schedule


# %% wrong="warms up beyond the microbatches" fails="each once"
"""Warms up by S - s forwards where there are fewer microbatches."""


def one_f_one_b(num_stages, num_microbatches):
    S, M = num_stages, num_microbatches
    orders = []
    for s in range(S):
        warm = S - s
        order = [("F", m) for m in range(warm)]
        for m in range(M):
            order.append(("B", m))
            if warm + m < M:
                order.append(("F", warm + m))
        orders.append(order)
    when, free, schedule = {}, [0] * S, []
    while any(orders):
        for s in range(S):
            while orders[s]:
                kind, m = orders[s][0]
                needs = ("F", m, s - 1) if kind == "F" else ("B", m, s + 1)
                if kind == "B" and s == S - 1:
                    needs = ("F", m, s)
                starts = kind == "F" and s == 0
                if not starts and needs not in when:
                    break
                free[s] = max(free[s], 0 if starts else when[needs] + 1)
                when[kind, m, s] = free[s]
                free[s] += 1
                orders[s].pop(0)
    schedule = [[None] * S for _ in range(max(free))]
    for (kind, m, s), tick in when.items():
        schedule[tick][s] = kind, m
    return schedule


# %% right="via a mirror"
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


# %% right="via a recursion"
"""Asks for each turn when it may be at the earliest; old ones first: not too deep."""

import functools


def one_f_one_b(num_stages, num_microbatches):
    S, M = num_stages, num_microbatches

    @functools.cache
    def forward(m, s):
        after = [forward(m, s - 1) + 1 if s else 0]
        if m >= S - s:  # room, once an older one is done
            after.append(backward(m - (S - s), s) + 1)
        return max(after + ([forward(m - 1, s) + 1] if m else []))

    @functools.cache
    def backward(m, s):
        before = forward(m, s) if s == S - 1 else backward(m, s + 1)
        if m:
            before = max(before, backward(m - 1, s) + (m - 1 + S - s < M))
        return before + 1

    num_ticks = max(backward(m, 0) for m in range(M)) + 1
    schedule = [[None for _ in range(S)] for _ in range(num_ticks)]
    for m in range(M):
        for s in range(S):
            schedule[forward(m, s)][s] = ("F", m)
            schedule[backward(m, s)][s] = ("B", m)
    return schedule


# %% right="via an order of each stage"
"""Writes each stage's warm-up, steady state and rest, then places them early."""


def one_f_one_b(num_stages, num_microbatches):
    S, M = num_stages, num_microbatches
    orders = []
    for s in range(S):
        warm = min(S - s, M)
        order = [("F", m) for m in range(warm)]
        for m in range(M):
            order.append(("B", m))
            if warm + m < M:
                order.append(("F", warm + m))
        orders.append(order)
    when, free, schedule = {}, [0] * S, []
    while any(orders):
        for s in range(S):
            while orders[s]:
                kind, m = orders[s][0]
                needs = ("F", m, s - 1) if kind == "F" else ("B", m, s + 1)
                if kind == "B" and s == S - 1:
                    needs = ("F", m, s)
                starts = kind == "F" and s == 0
                if not starts and needs not in when:
                    break
                free[s] = max(free[s], 0 if starts else when[needs] + 1)
                when[kind, m, s] = free[s]
                free[s] += 1
                orders[s].pop(0)
    schedule = [[None] * S for _ in range(max(free))]
    for (kind, m, s), tick in when.items():
        schedule[tick][s] = kind, m
    return schedule


# %% right="via columns"
"""Writes each stage's column as a dict, then turns the table."""


def one_f_one_b(num_stages, num_microbatches):
    columns = []
    for s in range(num_stages):
        forwards = {s + 2 * m: ("F", m) for m in range(num_microbatches)}
        first = 2 * num_stages - 1 - s
        backwards = {first + 2 * m: ("B", m) for m in range(num_microbatches)}
        columns.append(forwards | backwards)
    ticks = 1 + max(columns[0])
    return [[column.get(tick) for column in columns] for tick in range(ticks)]


# %% right="via greedy ticks"
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


# %% right="via questions to each cell"
"""Asks for each cell of the table whose turn it is."""


def one_f_one_b(num_stages, num_microbatches):
    def turn(tick, s):
        for kind, first in (("F", s), ("B", 2 * num_stages - 1 - s)):
            m, rest = divmod(tick - first, 2)
            if not rest and 0 <= m < num_microbatches:
                return kind, m
        return None

    ticks = range(2 * num_microbatches + 2 * num_stages - 2)
    return [[turn(tick, s) for s in range(num_stages)] for tick in ticks]


# %% right="via the last microbatch first"
"""Takes the microbatches from the last to the first."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    table = [[None] * num_stages for _ in range(ticks)]
    for place, m in enumerate(reversed(range(num_microbatches))):
        for s in range(num_stages):
            table[s + 2 * place][s] = ("F", m)
            table[2 * num_stages - s + 2 * place - 1][s] = ("B", m)
    return table
