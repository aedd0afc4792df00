"""Cuts each epoch into whole batches and drops the rows that are left.

Told: the rest of an epoch is dropped
Fails: batch after batch; rows in order
"""


def batches(data, batch_size, sharding, seed, start_step):
    per_epoch = max(1, len(data[0]) // batch_size)

    def ready(step):
        epoch, number = divmod(step, per_epoch)
        order = epoch_order(seed, epoch, len(data[0]))
        rows = order[number * batch_size : (number + 1) * batch_size]
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
