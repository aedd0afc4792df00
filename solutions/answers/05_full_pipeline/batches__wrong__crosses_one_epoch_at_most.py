"""Fills a batch up with rows of the next epoch, and no further: fails where a batch is
larger than an epoch.

Told: none
Fails: batch after batch; rows in order
"""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        epoch, first = divmod(step * batch_size, len(data[0]))
        rows = epoch_order(seed, epoch, len(data[0]))[first : first + batch_size]
        more = epoch_order(seed, epoch + 1, len(data[0]))[: batch_size - len(rows)]
        rows = np.concatenate([rows, more])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
