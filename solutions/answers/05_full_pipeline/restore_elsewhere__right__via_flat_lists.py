"""Flattens both trees, and uses a checkpointer of the one item."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        steps = manager.all_steps()
        if not steps:
            raise FileNotFoundError(f"{directory} holds no checkpoint")
        shapes, tree = jax.tree.flatten(saved_shapes(manager, max(steps)))
    layouts = [NamedSharding(mesh, spec) for spec in tree.flatten_up_to(specs)]
    like = [
        jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=layout)
        for shape, layout in zip(shapes, layouts, strict=True)
    ]
    where = Path(directory).absolute() / str(max(steps)) / "state"
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(where, jax.tree.unflatten(tree, like))
