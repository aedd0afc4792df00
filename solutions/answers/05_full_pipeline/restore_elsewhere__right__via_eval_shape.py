"""Lets eval_shape make the target, out of shapes with shardings."""

import functools


def restore_elsewhere(directory, mesh, specs):
    manager = open_manager(directory)
    try:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(directory)
        layouts = jax.tree.map(functools.partial(NamedSharding, mesh), specs)
        empty = saved_shapes(manager, step)
        like = jax.tree.map(lambda leaf, one: leaf.update(sharding=one), empty, layouts)
        found = manager.restore(step, args=Composite(state=StandardRestore(like)))
    finally:
        manager.close()
    return found["state"]
