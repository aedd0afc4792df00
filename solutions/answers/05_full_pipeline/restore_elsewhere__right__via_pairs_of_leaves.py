"""Goes through pairs of leaves, with the specs flattened by hand."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        newest = max(manager.all_steps(), default=None)
        if newest is None:
            raise FileNotFoundError(f"There is nothing to restore in {directory}.")
        shapes = saved_shapes(manager, newest)
        leaves, structure = jax.tree.flatten(shapes)
        every = jax.tree.leaves(specs, is_leaf=lambda one: isinstance(one, P))
        target = []
        for leaf, spec in zip(leaves, every, strict=True):
            for name in jax.tree.leaves(tuple(spec)):
                if name not in mesh.axis_names:
                    raise ValueError(f"the mesh has no axis {name}")
            layout = NamedSharding(mesh, spec)
            target.append(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=layout))
        like = StandardRestore(structure.unflatten(target))
        return manager.restore(newest, args=Composite(state=like))["state"]
