"""Takes it that data is a pair, as in the example.

Told: none
Fails: batch after batch; rows in order
"""


def batches(data, batch_size, sharding, seed, start_step):
    x, y = data

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(x))
        orders = {e: epoch_order(seed, e, len(x)) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return place(x[rows], sharding), place(y[rows], sharding)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
