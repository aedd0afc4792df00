"""Takes the newest by name, as text: of steps 9 and 10 it restores 9.

Told: this is an older checkpoint
Fails: the newest values
"""


def restore_elsewhere(directory, mesh, specs):
    folder = Path(directory)
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    steps = [name for name in names if name.isdigit()]
    if not steps:
        raise FileNotFoundError(f"no checkpoint in {directory}")
    newest = int(steps[-1])
    with open_manager(directory) as manager:
        like = jax.tree.map(
            lambda a, spec: jax.ShapeDtypeStruct(
                a.shape, a.dtype, sharding=NamedSharding(mesh, spec)
            ),
            saved_shapes(manager, newest),
            specs,
        )
        wanted = Composite(state=StandardRestore(like))
        return manager.restore(newest, args=wanted).state
