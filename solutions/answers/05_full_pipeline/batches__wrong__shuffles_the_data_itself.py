"""Shuffles the caller's arrays in place, once per epoch.

Told: none
Fails: arguments stay
"""


def batches(data, batch_size, sharding, seed, start_step):
    size, original = len(data[0]), [array.copy() for array in data]
    current = None

    def row_of(place_in_line):
        nonlocal current
        epoch, inside = divmod(place_in_line, size)
        if epoch != current:
            order, current = epoch_order(seed, epoch, size), epoch
            for array, first in zip(data, original, strict=True):
                array[:] = first[order]
        return [array[inside].copy() for array in data]

    def ready(step):
        rows = [row_of(step * batch_size + i) for i in range(batch_size)]
        return tuple(place(np.stack(c), sharding) for c in zip(*rows, strict=True))

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
