"""Calls jax.make_mesh as it is: explicit axes in newer versions."""


def make_mesh_and_place(x, shape, axis_names, spec):
    need, have = math.prod(shape), jax.device_count()
    if need > have:
        raise ValueError(f"need {need}, have {have}")
    mesh = jax.make_mesh(shape, axis_names)
    for axis in jax.tree.leaves(spec):
        if axis not in mesh.axis_names:
            raise ValueError(f"no axis {axis} in {mesh.axis_names}")
    return jax.device_put(x, NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
