"""Takes JAX's own initializers for one layer."""


def init_ensemble(key, num_devices, sizes):
    make_w = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    make_b = jax.nn.initializers.zeros

    def member(key):
        layers = []
        for i in range(len(sizes) - 1):
            key, for_w, for_b = jax.random.split(key, 3)
            w = make_w(for_w, (sizes[i], sizes[i + 1]), jnp.float32)
            b = make_b(for_b, (sizes[i + 1],), jnp.float32)
            layers.append(dict(w=w, b=b))
        return layers

    members = [member(key) for key in jax.random.split(key, num_devices)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
