"""Trusts that Orbax says where there is no checkpoint.

Told: none
Fails: nothing there
"""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state
