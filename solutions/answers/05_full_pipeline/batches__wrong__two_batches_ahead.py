"""Keeps two batches ahead: more memory than was asked for.

Told: more than one batch is ahead
Fails: one batch ahead
"""

import collections


def batches(data, batch_size, sharding, seed, start_step):
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = collections.deque([ready(start_step), ready(start_step + 1)])
    for step in itertools.count(start_step + 2):
        ahead.append(ready(step))
        yield ahead.popleft()
