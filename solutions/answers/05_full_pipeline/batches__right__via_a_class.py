"""Returns an iterator of its own class, which holds the batch to come."""


class Stream:
    def __init__(self, data, batch_size, sharding, seed, step):
        self.data, self.size, self.sharding = data, batch_size, sharding
        self.seed, self.step = seed, step
        self.coming = self.made()

    def __iter__(self):
        return self

    def __next__(self):
        here, self.coming = self.coming, self.made()
        return here

    def made(self):
        num_rows, rows = len(self.data[0]), []
        first = self.step * self.size
        self.step += 1
        while len(rows) < self.size:
            epoch, inside = divmod(first + len(rows), num_rows)
            rest = epoch_order(self.seed, epoch, num_rows)[inside:]
            rows.extend(rest[: self.size - len(rows)].tolist())
        return tuple(place(np.take(a, rows, axis=0), self.sharding) for a in self.data)


def batches(data, batch_size, sharding, seed, start_step):
    return Stream(data, batch_size, sharding, seed, start_step)
