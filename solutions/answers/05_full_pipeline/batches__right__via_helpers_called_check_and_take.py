"""Has helpers of its own, with names that the course uses, too."""


def check(batch_size, sharding):
    sharding.shard_shape((batch_size,))  # raises where it does not divide


def take(data, rows):
    return [array[rows] for array in data]


def observe(seed, size):
    epoch = 0
    while True:
        yield from epoch_order(seed, epoch, size)
        epoch += 1


def expect(line, count):
    return np.fromiter(line, int, count)


def batches(data, batch_size, sharding, seed, start_step):
    check(batch_size, sharding)
    line = observe(seed, len(data[0]))
    expect(line, start_step * batch_size)

    def following():
        rows = expect(line, batch_size)
        return tuple(place(array, sharding) for array in take(data, rows))

    one = following()
    while True:
        two = following()
        yield one
        one = two
