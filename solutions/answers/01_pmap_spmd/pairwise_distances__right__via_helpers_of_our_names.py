"""Has helpers that are called as the course calls its own."""


def check(point, query):
    return jnp.sqrt(jnp.square(point - query).sum())


def observe(points, query):
    return jax.vmap(check, (0, None))(points, query)


def pairwise_distances(points, queries):
    expect = jax.vmap(observe, in_axes=(None, 0), out_axes=1)
    return jax.pmap(expect, in_axes=(0, None))(points, queries)
