"""Builds all differences at once, in another shape than (D, N, Q, F).

Told: none
Fails: row d on device d; never all differences
"""


def pairwise_distances(points, queries):
    num_devices, num_points, width = points.shape
    flat = jnp.asarray(points).reshape(-1, 1, width) - queries
    flat = flat.reshape(num_devices, num_points * len(queries), width)

    def block(gaps):
        return jnp.sqrt((gaps**2).sum(-1)).reshape(num_points, len(queries))

    return jax.pmap(block)(flat)
