"""Keeps the epochs' orders for all streams, whatever their seed.

Told: none
Fails: nothing is remembered
"""

kept_orders = {}


def batches(data, batch_size, sharding, seed, start_step):
    size = len(data[0])

    def row(place_in_line):
        epoch, inside = divmod(place_in_line, size)
        if (epoch, size) not in kept_orders:
            kept_orders[epoch, size] = epoch_order(seed, epoch, size)
        return kept_orders[epoch, size][inside]

    def ready(step):
        rows = [row(step * batch_size + i) for i in range(batch_size)]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
