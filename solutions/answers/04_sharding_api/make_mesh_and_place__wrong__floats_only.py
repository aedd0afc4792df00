"""Makes 32-bit floats of whatever it gets.

Told: none
Fails: values and dtype stay; nothing is remembered
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    return jax.device_put(jnp.asarray(x, jnp.float32), sharding)
