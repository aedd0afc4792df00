"""Remembers a directory's newest step: what is saved later is not seen.

Told: none
Fails: nothing is remembered
"""

newest_of = {}


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = newest_of.setdefault(str(directory), manager.latest_step())
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(
            lambda a, spec: jax.ShapeDtypeStruct(
                a.shape, a.dtype, sharding=NamedSharding(mesh, spec)
            ),
            saved_shapes(manager, step),
            specs,
        )
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state
