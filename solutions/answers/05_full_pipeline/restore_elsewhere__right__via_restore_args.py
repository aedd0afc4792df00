"""Names each array's sharding in Orbax's restore_args."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = manager.latest_step()
        shapes = None if step is None else saved_shapes(manager, step)
    if shapes is None:
        raise FileNotFoundError(f"no checkpoint: {directory}")
    arguments = jax.tree.map(
        lambda leaf, spec: ocp.ArrayRestoreArgs(
            dtype=leaf.dtype, sharding=NamedSharding(mesh, spec)
        ),
        shapes,
        specs,
    )
    folder = Path(directory).absolute() / f"{step}" / "state"
    with ocp.PyTreeCheckpointer() as checkpointer:
        return checkpointer.restore(folder, item=shapes, restore_args=arguments)
