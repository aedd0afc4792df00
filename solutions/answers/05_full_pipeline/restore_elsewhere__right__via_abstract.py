"""Makes empty arrays of the right layout, and their abstract forms."""


def take(shape, sharding):
    return jax.eval_shape(lambda: jnp.zeros(shape.shape, shape.dtype)).update(
        sharding=sharding
    )


def restore_elsewhere(directory, mesh, specs):
    steps = open_manager(directory).all_steps()
    if len(steps) == 0:
        raise FileNotFoundError(f"{directory}: no checkpoint")
    with jax.set_mesh(mesh), open_manager(directory) as manager:
        shapes = saved_shapes(manager, max(steps))
        layouts = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
        like = jax.tree.map(take, shapes, layouts)
        return manager.restore(
            max(steps), args=Composite(state=StandardRestore(like))
        ).state
