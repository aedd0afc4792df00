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
