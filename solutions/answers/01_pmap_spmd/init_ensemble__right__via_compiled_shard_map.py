"""Compiles the whole for one mesh, and takes sizes as static."""

import functools

from jax.sharding import PartitionSpec as P


@functools.partial(jax.jit, static_argnums=(1, 2))
def init_ensemble(key, num_devices, sizes):
    def one(keys):
        layers, key = [], keys[0]
        for i, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            w = jax.random.normal(jax.random.fold_in(key, i), (1, n, m)) / n**0.5
            layers.append({"w": w, "b": jnp.zeros((1, m))})
        return layers

    mesh = jax.sharding.Mesh(jax.devices()[:num_devices], ("i",))
    mapped = jax.shard_map(
        one, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
    )
    return mapped(jax.random.split(key, num_devices))
