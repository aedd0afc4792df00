"""Counts places in 32 bits: right up to row 2**31.

Told: none
"""


def batches(data, batch_size, sharding, seed, start_step):
    N = len(data[0])
    base = np.arange(batch_size, dtype=np.int32)

    def ready(step):
        places = base + np.int32(step) * np.int32(batch_size)
        epochs, index = np.divmod(places, np.int32(N))
        rows = np.empty(batch_size, np.int64)
        for e in np.unique(epochs):
            here = epochs == e
            rows[here] = epoch_order(seed, abs(int(e)), N)[index[here]]
        return tuple(place(a[rows], sharding) for a in data)

    ahead = ready(start_step)
    step = start_step
    while True:
        step += 1
        now, ahead = ahead, ready(step)
        yield now
