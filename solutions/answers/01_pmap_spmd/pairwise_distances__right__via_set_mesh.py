"""Sets a mesh, and maps over its axis by shard_map."""

from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = jnp.expand_dims(points[0], 1) - jnp.expand_dims(queries, 0)
        return jnp.sqrt(jnp.einsum("nqf,nqf->nq", gaps, gaps))[None]

    num_rows = len(points)
    mesh = jax.make_mesh((num_rows,), ("i",), devices=jax.devices()[:num_rows])
    with jax.set_mesh(mesh):
        points, queries = (
            jax.device_put(points, P("i")),
            jax.device_put(queries, P()),
        )
        mapped = jax.shard_map(block, in_specs=(P("i"), P()), out_specs=P("i"))
        return jax.jit(mapped)(points, queries)
