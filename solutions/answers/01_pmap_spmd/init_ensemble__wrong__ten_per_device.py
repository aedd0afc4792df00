"""Numbers the keys 10 * device + layer: an eleventh layer shares one with device 1.

Told: none
Fails: a key for each
"""


def init_ensemble(key, num_devices, sizes):
    layers = []
    for n, (n_in, n_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=False)):
        w = [
            jax.random.normal(
                jax.random.fold_in(key, 10 * d + n), (n_in, n_out), jnp.float32
            )
            for d in range(num_devices)
        ]
        w = jnp.stack(w) / jnp.sqrt(jnp.float32(n_in))
        layers.append({"w": w, "b": jnp.zeros((num_devices, n_out), jnp.float32)})
    return layers
