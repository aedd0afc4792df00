"""Takes the first checkpoint of the list, the oldest.

Told: this is an older checkpoint
Fails: the newest values
"""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        steps = sorted(manager.all_steps())
        if not steps:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, steps[0]), specs)
        wanted = Composite(state=StandardRestore(like))
        return manager.restore(steps[0], args=wanted).state
