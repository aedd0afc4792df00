# %% wrong="drops unknown axes" fails="unknown axis"
"""Takes an axis that the mesh lacks for None, which hides a typing error."""


def restore_elsewhere(directory, mesh, specs):
    def known(part):
        names = part if isinstance(part, tuple) else (part,)
        return part if all(name in mesh.axis_names for name in names) else None

    def target(leaf, spec):
        sharding = NamedSharding(mesh, P(*map(known, spec)))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="drops unknown axes inside a tuple" fails="unknown axis"
"""Checks the names of axes, and of a tuple keeps those that the mesh has."""


def restore_elsewhere(directory, mesh, specs):
    def known(part):
        if isinstance(part, tuple):
            return tuple(name for name in part if name in mesh.axis_names)
        return part

    def target(leaf, spec):
        sharding = NamedSharding(mesh, P(*map(known, spec)))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="every device holds all" fails="sharded by specs"
"""Ignores the specs: each device holds the whole state, which on one device is as asked."""


def restore_elsewhere(directory, mesh, specs):
    jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    whole = NamedSharding(mesh, P())

    def target(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step))
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="first devices of the mesh shape" fails="sharded by specs"
"""Makes a mesh of the same shape and names, of the first devices."""


def restore_elsewhere(directory, mesh, specs):
    devices = np.array(jax.devices()[: mesh.size]).reshape(mesh.devices.shape)
    mesh = jax.sharding.Mesh(devices, mesh.axis_names)

    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="leaves the error to orbax" fails="nothing there"
"""Trusts that Orbax says where there is no checkpoint."""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="newest by name" fails="newest values"
# cause: this is an older checkpoint
"""Takes the newest by name, as text: of steps 9 and 10 it restores 9."""


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


# %% wrong="nothing where nothing is" fails="nothing there"
"""Returns None where there is no checkpoint."""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            return None
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="on all devices" fails="newest values; sharded by specs"
"""Makes a mesh of its own, of all devices."""


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


# %% wrong="recursion into dicts alone" fails="newest values"
"""Makes the target by recursion into dicts, not into lists."""


def restore_elsewhere(directory, mesh, specs):
    def target(saved, spec):
        if isinstance(saved, dict):
            return {name: target(saved[name], spec[name]) for name in saved}
        return jax.ShapeDtypeStruct(
            saved.shape, saved.dtype, sharding=NamedSharding(mesh, spec)
        )

    manager = open_manager(directory)
    step = manager.latest_step()
    if step is None:
        manager.close()
        raise FileNotFoundError(str(directory))
    tree = target(saved_shapes(manager, step), specs)
    state = manager.restore(step, args=Composite(state=StandardRestore(tree))).state
    manager.close()
    return state


# %% wrong="restores as saved then splits" fails="never gathered"
# cause: Orbax is not told the shardings of specs: StandardRestore takes a target that has them
"""Restores in the saved layout, which asks for the saving machine's devices, and moves
the arrays then.
"""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        state = manager.restore(step, args=Composite(state=StandardRestore())).state

    def split(leaf, spec):
        return place(np.asarray(leaf), NamedSharding(mesh, spec))

    return jax.tree.map(split, state, specs)


# %% wrong="restores float32" fails="newest values"
"""Asks for float32, whatever was saved."""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        dtype = leaf.dtype if leaf.dtype == np.int32 else np.float32
        return jax.ShapeDtypeStruct(
            leaf.shape, dtype, sharding=NamedSharding(mesh, spec)
        )

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="restores on the host" fails="never gathered"
# cause: Orbax is not told the shardings of specs: StandardRestore takes a target that has them
"""Restores NumPy arrays and places them: the host holds the whole state."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        shapes = saved_shapes(manager, step)
        like = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        state = manager.restore(step, args=Composite(state=StandardRestore(like))).state

    def split(leaf, spec):
        return place(np.asarray(leaf), NamedSharding(mesh, spec))

    return jax.tree.map(split, state, specs)


# %% wrong="restores whole then places" fails="never gathered"
# cause: Orbax is not told the shardings of specs: StandardRestore takes a target that has them
"""Gives Orbax a whole layout, and splits with device_put: too large for one device."""


def restore_elsewhere(directory, mesh, specs):
    whole = NamedSharding(mesh, P())

    def target(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step))
        state = manager.restore(step, args=Composite(state=StandardRestore(like))).state
    layouts = jax.tree.map(lambda _, spec: NamedSharding(mesh, spec), state, specs)
    return jax.device_put(state, layouts)


# %% wrong="sorts a tuple of axes" fails="sharded by specs"
# cause: the axes of a tuple are taken in the mesh's order
"""Brings the axes of a tuple into the mesh's order, in which devices hold other parts."""


def restore_elsewhere(directory, mesh, specs):
    def sorted_axes(part):
        if isinstance(part, tuple):
            return tuple(sorted(part))
        return part

    def target(leaf, spec):
        sharding = NamedSharding(mesh, P(*map(sorted_axes, spec)))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="specs by last name" fails="sharded by specs"
"""Looks specs up by an array's own name, whatever it is in."""


def restore_elsewhere(directory, mesh, specs):
    by_name = {
        str(path[-1:]): NamedSharding(mesh, spec)
        for path, spec in jax.tree_util.tree_leaves_with_path(specs)
    }
    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")

        def target(path, leaf):
            sharding = by_name[str(path[-1:])]
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

        like = jax.tree_util.tree_map_with_path(target, saved_shapes(manager, step))
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="step kept" fails="nothing is remembered"
"""Remembers a directory's newest step: what is saved later is not seen."""

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


# %% wrong="takes the oldest" fails="newest values"
# cause: this is an older checkpoint
"""Takes the first checkpoint of the list, the oldest."""


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


# %% wrong="top level alone" fails="newest values"
"""Makes a target of the top level's entries: fails for trees that are deeper."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = {}
        for name, leaf in saved_shapes(manager, step).items():
            sharding = NamedSharding(mesh, specs[name])
            like[name] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="wants an entry per axis" fails="newest values; unknown axis"
"""Wants an entry in the spec forevery axis of the array."""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        parts = [spec[axis] for axis in range(len(leaf.shape))] if len(spec) else []
        sharding = NamedSharding(mesh, P(*parts))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% wrong="tuples for lists" fails="newest values"
"""Returns a tuple where a list was saved: no optimizer can go on from it."""


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    def tuples(tree):
        if isinstance(tree, dict):
            return {name: tuples(part) for name, part in tree.items()}
        return tuple(map(tuples, tree)) if isinstance(tree, list) else tree

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        wanted = Composite(state=StandardRestore(like))
        return tuples(manager.restore(step, args=wanted).state)


# %% right="via abstract"
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


# %% right="via eval shape"
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


# %% right="via flat lists"
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


# %% right="via pairs of leaves"
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


# %% right="via recursion"
"""Makes the target by recursion into dicts and lists."""


def restore_elsewhere(directory, mesh, specs):
    def target(saved, spec):
        if isinstance(saved, dict):
            return {name: target(saved[name], spec[name]) for name in saved}
        if isinstance(saved, list):
            return [target(*pair) for pair in zip(saved, spec, strict=True)]
        return jax.ShapeDtypeStruct(
            saved.shape, saved.dtype, sharding=NamedSharding(mesh, spec)
        )

    manager = open_manager(directory)
    step = manager.latest_step()
    if step is None:
        manager.close()
        raise FileNotFoundError(str(directory))
    tree = target(saved_shapes(manager, step), specs)
    state = manager.restore(step, args=Composite(state=StandardRestore(tree))).state
    manager.close()
    return state


# %% right="via restore args"
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


# %% wrong="one text for all errors" fails="nothing there; unknown axis"
"""Raises one text, which holds every name that anybody could have read."""

TEXT = "cannot restore no-runs no-such-place half-done rows data i j x y one"


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        try:
            sharding = NamedSharding(mesh, spec)
        except ValueError:
            raise ValueError(TEXT) from None
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(TEXT)
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        return manager.restore(step, args=Composite(state=StandardRestore(like))).state


# %% right="unsharded arrays as NumPy"
"""Reads what `specs` does not shard as NumPy arrays, and places them."""


def restore_elsewhere(directory, mesh, specs):
    with open_manager(directory) as manager:
        step = manager.latest_step()
    if step is None:
        raise FileNotFoundError(f"no checkpoint in {directory}")

    def wanted(spec):
        if not any(spec):
            return ocp.RestoreArgs(restore_type=np.ndarray)
        return ocp.ArrayRestoreArgs(sharding=NamedSharding(mesh, spec))

    def placed(array, spec):
        if isinstance(array, jax.Array):
            return array
        return place(array, NamedSharding(mesh, spec))

    folder = Path(directory).absolute() / f"{step}" / "state"
    with ocp.PyTreeCheckpointer() as checkpointer:
        arguments = jax.tree.map(wanted, specs)
        state = checkpointer.restore(folder, restore_args=arguments)
    return jax.tree.map(placed, state, specs)
