"""Puts each block on its device, and makes one array of them."""


def make_mesh_and_place(x, shape, axis_names, spec):
    if math.prod(shape) > jax.device_count():
        raise ValueError(f"{math.prod(shape)} of {jax.device_count()} devices")
    sharding = NamedSharding(make_mesh(shape, axis_names), P(*spec))
    where = sharding.addressable_devices_indices_map(x.shape)
    blocks = [jax.device_put(x[index], device) for device, index in where.items()]
    return jax.make_array_from_single_device_arrays(x.shape, sharding, blocks)
