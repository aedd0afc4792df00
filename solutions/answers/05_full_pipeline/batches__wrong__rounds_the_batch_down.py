"""Makes the batch smaller where it does not divide, and tells nobody.

Told: none
Fails: batch after batch; rows in order; rows must divide
"""


def batches(data, batch_size, sharding, seed, start_step):
    batch_size -= batch_size % sharding.mesh.size

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
