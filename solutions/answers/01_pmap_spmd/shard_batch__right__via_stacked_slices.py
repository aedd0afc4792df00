"""Cuts slices and stacks them."""


def shard_batch(batch, num_devices):
    def split(x):
        rows, rest = divmod(x.shape[0], num_devices)
        if rest:
            raise ValueError(f"cannot split {x.shape[0]} rows over {num_devices}")
        return np.stack([x[d * rows : (d + 1) * rows] for d in range(num_devices)])

    return jax.tree.map(split, batch)
