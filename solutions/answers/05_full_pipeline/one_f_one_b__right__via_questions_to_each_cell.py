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
