"""Makes a mesh of the same shape and names, of the first devices.

Told: none
Fails: laid out by specs
"""


def restore_elsewhere(directory, mesh, specs):
    devices = np.array(jax.devices()[: mesh.size]).reshape(mesh.devices.shape)
    mesh = jax.sharding.Mesh(devices, mesh.axis_names)

    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state
