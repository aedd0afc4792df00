"""Takes the first devices, from the last of them to the first.

Told: the mesh takes the first devices, in their order
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    devices = np.array(jax.devices()[: math.prod(shape)])[::-1].reshape(shape)
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))
