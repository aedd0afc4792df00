"""Lets device numbers run along the first mesh axis, not the last.

Told: the mesh takes the first devices, in their order
Fails: on a mesh of the first devices
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    mesh = make_mesh(shape, axis_names)
    devices = np.array(mesh.devices).ravel().reshape(shape[::-1]).T
    mesh = jax.sharding.Mesh(devices, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))
