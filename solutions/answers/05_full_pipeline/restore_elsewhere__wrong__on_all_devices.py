"""Makes a mesh of its own, of all devices.

Told: none
Fails: the newest values; laid out by specs
"""


def restore_elsewhere(directory, mesh, specs):
    mesh = make_mesh(jax.device_count())

    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state
