"""Compiles the copying pmap ahead of its call."""


def replicate(tree, num_devices):
    if num_devices > len(jax.local_devices()):
        raise ValueError(f"{num_devices}, but {len(jax.local_devices())} devices")
    leaves, kind = jax.tree.flatten(tree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    take = jax.pmap(lambda _, *whole: whole, in_axes=(0, *[None] * len(arrays)))
    numbers = jnp.zeros(num_devices)
    compiled = take.lower(numbers, *arrays).compile()
    return kind.unflatten(compiled(numbers, *arrays))


def unreplicate(tree):
    first = lambda leaf: jnp.take(jnp.asarray(leaf), 0, axis=0)  # noqa: E731
    return jax.tree.map(first, tree)
