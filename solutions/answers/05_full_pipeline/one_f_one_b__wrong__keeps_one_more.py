"""Lets a stage keep one microbatch more.

Told: none
Fails: few are kept
"""


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
