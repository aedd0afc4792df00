"""Goes back to the beginning of start_step's epoch, so that some rows come twice.

Told: the epoch begins again: rows come twice
Fails: batch after batch; rows in order
"""


def batches(data, batch_size, sharding, seed, start_step):
    def line():
        for epoch in itertools.count(start_step * batch_size // len(data[0])):
            yield from epoch_order(seed, epoch, len(data[0]))

    rows_left = line()

    def ready():
        rows = np.array(list(itertools.islice(rows_left, batch_size)))
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready()
    while True:
        now, ahead = ahead, ready()
        yield now
