"""Counts the places of the endless line by jnp, which is in 32 bits: they run over.

Told: none
"""


def batches(data, batch_size, sharding, seed, start_step):
    def ready(first):
        epochs, inside = jnp.divmod(first + jnp.arange(batch_size), len(data[0]))
        orders = {
            epoch: epoch_order(seed, int(epoch) % 2**31, len(data[0]))
            for epoch in np.unique(epochs)
        }
        pairs = zip(np.asarray(epochs), np.asarray(inside), strict=True)
        rows = np.array([orders[epoch][index] for epoch, index in pairs])
        return tuple(place(array[rows], sharding) for array in data)

    first = jnp.int32(start_step * batch_size)
    ahead = ready(first)
    while True:
        first = first + batch_size
        now, ahead = ahead, ready(first)
        yield now
