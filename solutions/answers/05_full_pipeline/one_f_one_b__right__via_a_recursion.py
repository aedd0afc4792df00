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
