"""Makes the global array, then takes the parts of its devices.

Told: all rows of the array are read
Fails: own rows alone
"""


def read_own_rows(read, sharding, shape, devices):
    blocks = {}

    def part_of(index):
        first, last, _ = index[0].indices(shape[0])
        if first not in blocks:
            blocks[first] = read(first, last)
        return blocks[first][:, *index[1:]]

    whole = jax.make_array_from_callback(shape, sharding, part_of)
    parts = {shard.device: shard.data for shard in whole.addressable_shards}
    return [parts[device] for device in devices]
