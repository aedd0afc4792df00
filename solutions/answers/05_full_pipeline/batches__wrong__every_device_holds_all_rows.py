"""Takes the mesh from the sharding and not its layout: right on one device, the whole
batch on each of eight.

Told: each device holds all rows: place(array, sharding) splits them
Fails: laid out by sharding
"""


def batches(data, batch_size, sharding, seed, start_step):
    if batch_size % sharding.mesh.size:
        raise ValueError(f"{batch_size} rows on {sharding.mesh.size} devices")
    whole = NamedSharding(sharding.mesh, P())

    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], whole) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
