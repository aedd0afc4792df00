"""Splits over an axis "data" of the sharding's mesh, which need not have one.

Told: none
Fails: batch after batch; rows in order
"""


def batches(data, batch_size, sharding, seed, start_step):
    by_rows = NamedSharding(sharding.mesh, P("data"))

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], by_rows) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
