"""Keeps the batches in a queue; JAX's error tells of rows that do not divide."""

import collections


def batches(data, batch_size, sharding, seed, start_step):
    num_rows = len(data[0])

    def row(place_in_line):
        epoch, inside = divmod(place_in_line, num_rows)
        return epoch_order(seed, epoch, num_rows)[inside]

    queue = collections.deque()
    for step in itertools.count(start_step):
        rows = [row(step * batch_size + i) for i in range(batch_size)]
        queue.append(tuple(place(array[rows], sharding) for array in data))
        if len(queue) == 2:
            yield queue.popleft()
