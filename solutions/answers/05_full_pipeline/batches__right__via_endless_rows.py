"""Walks along the line row by row, from the right row on; places with device_put."""


def batches(data, batch_size, sharding, seed, start_step):
    first_epoch, skipped = divmod(start_step * batch_size, len(data[0]))

    def line():
        for epoch in itertools.count(first_epoch):
            yield from epoch_order(seed, epoch, len(data[0]))

    rows_left = itertools.islice(line(), skipped, None)

    def ready():
        rows = list(itertools.islice(rows_left, batch_size))
        return jax.device_put(tuple(array[rows] for array in data), sharding)

    ahead = ready()
    while True:
        following = ready()
        yield ahead
        ahead = following
