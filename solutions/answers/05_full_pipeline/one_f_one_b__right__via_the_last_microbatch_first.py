"""Takes the microbatches from the last to the first."""


def one_f_one_b(num_stages, num_microbatches):
    ticks = 2 * (num_microbatches + num_stages - 1)
    table = [[None] * num_stages for _ in range(ticks)]
    for place, m in enumerate(reversed(range(num_microbatches))):
        for s in range(num_stages):
            table[s + 2 * place][s] = ("F", m)
            table[2 * num_stages - s + 2 * place - 1][s] = ("B", m)
    return table
