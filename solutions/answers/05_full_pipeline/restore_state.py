# %% wrong="compares all facts" fails="both come back; newest; stops if unreadable"
"""Wants facts and settings to be equal: the position in the data is a fact, too."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    if facts != settings:
        names = [n for n in {*facts, *settings} if facts.get(n) != settings.get(n)]
        raise ValueError(f"the checkpoint has another {' and '.join(names)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="compares shared names alone" fails="another run"
"""Takes a checkpoint whose facts lack a setting for its own."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if name in facts and facts[name] != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="compares texts" fails="both come back"
"""Compares entries as texts: the same names in another order differ."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if str(facts.get(name)) != str(value):
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="deletes the fresh state" fails="arguments stay"
"""Makes room: deletes the fresh state as soon as another is there."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    for leaf in jax.tree.leaves(fresh):
        if isinstance(leaf, jax.Array):
            leaf.delete()
    return step, state, facts


# %% wrong="deletes the unreadable one" fails="stops if unreadable"
"""Stops, and deletes what it could not read, damaged or not."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            manager.delete(step)
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="falls back by itself" fails="stops if unreadable"
"""Passes over what it cannot read and takes the one before, without asking."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    for one in sorted(manager.all_steps(), reverse=True):
        if step is not None and one > step:
            print(f"Checkpoint {one} is newer, and stays.")
            continue
        try:
            facts = manager.restore(one, args=Composite(facts=JsonRestore())).facts
            other = [n for n in settings if facts.get(n) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(one, args=Composite(state=like)).state
        except Exception as error:
            print(f"Checkpoint {one} cannot be read: {type(error).__name__}")
            continue
        if other:
            raise ValueError(f"checkpoint {one} has another {other}")
        return one, state, facts
    return 0, fresh, {}


# %% wrong="forgets the facts" fails="both come back"
"""Restores the state and not the facts: the run reads its data from the start."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, {}


# %% wrong="layout written in" fails="both come back"
"""Shards every array with rows over the axis, whatever fresh's layout is."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    mesh = jax.tree.leaves(fresh)[0].sharding.mesh

    def target(a):
        spec = P(mesh.axis_names[0]) if a.ndim else P()
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)

    state = read(state=StandardRestore(jax.tree.map(target, fresh))).state
    return step, state, facts


# %% wrong="leaves all on the first device" fails="both come back"
"""Restores arrays of the host and lets jnp place them: of eight devices the first has all."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def to_first(leaf, like):
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return leaf
    return jnp.asarray(np.asarray(leaf))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, jax.tree.map(to_first, state, fresh), facts


# %% wrong="lets the error through" fails="stops if unreadable"
"""Leaves it to Orbax to say which checkpoint cannot be read."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        return manager.restore(step, args=Composite(**items))

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="moves the newer ones away" fails="stops if unreadable"
"""Clears the way for the older one that was asked for."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def set_aside(manager, step):
    target = Path(manager.directory, "damaged", f"{step}")
    target.parent.mkdir(exist_ok=True)
    Path(manager.directory, f"{step}").rename(target)
    manager.reload()


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored in place of {newer}")
        for one in newer:
            set_aside(manager, one)
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="names no setting" fails="another run"
"""Says that something is another's, and not what."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"checkpoint {step} belongs to another run")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="names no step" fails="says why"
"""Says that a checkpoint cannot be read, and not which one."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError("the checkpoint cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="raises without a reason" fails="says why"
"""Raises from None: what could not be read, nobody learns."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception:
            raise RuntimeError(f"the checkpoint {step} cannot be read") from None

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="only some errors are caught" fails="stops if unreadable; says why"
"""Expects damaged files alone: a MemoryError or a TypeError goes through."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="passes another run over" fails="another run"
"""Takes the next older checkpoint, or a fresh start, where the facts differ."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            older = [one for one in steps if one < step]
            if not older:
                return 0, fresh, {}
            return restore_state(manager, fresh, settings, older[-1])
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="reads the facts outside the try" fails="stops if unreadable; says why"
"""Expects damage in the state alone."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="remembers the newest step" fails="newest"
"""Looks once for the newest step, and keeps it for the manager's folder."""


known_steps = {}


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    known = known_steps.setdefault(str(manager.directory), manager.all_steps())
    steps = sorted({*known} & {*manager.all_steps()})
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="restores before it compares" fails="another run"
"""Restores the state before it compares the facts: another run's state has another
structure, which looks unreadable.
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    like = StandardRestore(abstract(fresh))
    state = read(state=like).state
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    return step, state, facts


# %% wrong="restores float32" fails="both come back"
"""Turns all that is restored into float32."""


def wide(leaf):
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return jax.device_put(leaf.astype(jnp.float32), leaf.sharding)


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, jax.tree.map(wide, state), facts


# %% wrong="restores without a target" fails="both come back"
# cause: another machine has saved this checkpoint: its devices are not here
"""Gives Orbax no target: tuples come back as lists, in the saved layout."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore()).state
    return step, state, facts


# %% wrong="saves the settings alone" fails="both come back"
"""Keeps of the facts what is plain: numbers and texts."""


def save_state(manager, step, state, facts):
    plain_ones = {n: v for n, v in facts.items() if isinstance(v, int | float | str)}
    items = Composite(state=StandardSave(state), facts=JsonSave(plain_ones))
    manager.save(step, args=items)


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="saves the weights alone" fails="both come back; newest; stops if unreadable"
"""Saves the weights alone: moments and random key start afresh."""


def save_state(manager, step, state, facts):
    weights = {"params": state["params"]}
    items = Composite(state=StandardSave(weights), facts=JsonSave(facts))
    manager.save(step, args=items)


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    like = abstract({"params": fresh["params"]})
    state = fresh | read(state=StandardRestore(like)).state
    return step, state, facts


# %% wrong="says nothing of newer ones" fails="says why"
"""Takes the older one without a word about those that are newer."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="sets another run aside" fails="another run"
"""Makes room for its own run: moves the other one's checkpoint away."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def set_aside(manager, step):
    target = Path(manager.directory, "damaged", f"{step}")
    target.parent.mkdir(exist_ok=True)
    Path(manager.directory, f"{step}").rename(target)
    manager.reload()


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            set_aside(manager, step)
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="sets the unreadable one aside" fails="stops if unreadable"
"""Moves what it cannot read into another folder, and takes the one before."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def set_aside(manager, step):
    target = Path(manager.directory, "damaged", f"{step}")
    target.parent.mkdir(exist_ok=True)
    Path(manager.directory, f"{step}").rename(target)
    manager.reload()


def restore_state(manager, fresh, settings, step=None):
    for one in sorted(manager.all_steps(), reverse=True):
        if step is not None and one > step:
            print(f"Checkpoint {one} is newer, and stays.")
            continue
        try:
            facts = manager.restore(one, args=Composite(facts=JsonRestore())).facts
            other = [n for n in settings if facts.get(n) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(one, args=Composite(state=like)).state
        except Exception as error:
            print(f"Checkpoint {one} cannot be read: {type(error).__name__}")
            set_aside(manager, one)
            continue
        if other:
            raise ValueError(f"checkpoint {one} has another {other}")
        return one, state, facts
    return 0, fresh, {}


# %% wrong="sorts the steps as text" fails="newest"
"""Sorts the steps as the folders' names: 5 comes behind 10."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps(), key=str)
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="starts anew" fails="stops if unreadable"
"""Begins at step 0 where the newest checkpoint cannot be read."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    try:
        facts = read(facts=JsonRestore()).facts
    except RuntimeError as error:
        print(error)
        return 0, fresh, {}
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="takes its own error for damage" fails="another run"
"""Raises inside its own try: another run's checkpoint is taken for an unreadable one."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    if manager.latest_step() is None:
        return 0, fresh, {}
    newer = [one for one in manager.all_steps() if step and one > step]
    if newer:
        print(f"Newer checkpoints: {newer}")
    step = step or manager.latest_step()
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
        for name, value in settings.items():
            if facts.get(name) != value:
                raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
        like = StandardRestore(abstract(fresh))
        return step, manager.restore(step, args=Composite(state=like)).state, facts
    except Exception as error:
        raise RuntimeError(f"step {step}: {type(error).__name__}") from error


# %% wrong="takes the oldest" fails="newest; stops if unreadable; another run"
"""Takes the first of the steps."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[0] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="waits for the writing" fails="does not wait"
"""`save_state` comes back when the checkpoint is written, and the devices wait."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))
    manager.wait_until_finished()


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="restores on the old devices" fails="both come back"
# cause: another machine has saved this checkpoint: its devices are not here
"""Restores as it was saved, which needs the devices of then, and moves the arrays."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    saved = jax.tree.leaves(read(state=StandardRestore()).state)
    shapes, tree = jax.tree.flatten(fresh)
    moved = [jax.device_put(a, s.sharding) for a, s in zip(saved, shapes, strict=True)]
    return step, tree.unflatten(moved), facts


# %% right="takes what is missing for none"
"""A setting whose value is None may be missing in the facts, or must not."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if name not in facts or facts[name] != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% right="via a checkpointer"
"""Reads the state with a checkpointer of its own, from the item's folder."""


def save_state(manager, step, state, facts):
    items = {"state": ocp.args.StandardSave(state), "facts": ocp.args.JsonSave(facts)}
    manager.save(step, args=ocp.args.Composite(**items))


def restore_state(manager, fresh, settings, step=None):
    newest = manager.latest_step()
    if newest is None:
        return 0, fresh, {}
    if step is None:
        step = newest
    elif step < newest:
        print("left alone:", *(s for s in manager.all_steps() if s > step))
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
    except Exception as error:
        raise RuntimeError(f"the facts of step {step} cannot be read") from error
    for name in settings:
        if facts.get(name, ...) != settings[name]:
            raise ValueError(f"another {name}")
    try:
        with ocp.StandardCheckpointer() as checkpointer:
            place_of = Path(manager.directory) / str(step) / "state"
            return step, checkpointer.restore(place_of, abstract(fresh)), facts
    except Exception as error:
        raise RuntimeError(f"the state of step {step} cannot be read") from error


# %% right="via a context manager"
"""Puts the reading into a context that turns errors around."""


import contextlib


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


class OtherRun(ValueError):
    """A checkpoint whose facts differ."""


@contextlib.contextmanager
def reading(step):
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"checkpoint {step}: {type(error).__name__}") from error


def restore_state(manager, fresh, settings, step=None):
    steps = manager.all_steps()
    chosen = max(steps, default=None) if step is None else step
    if chosen is None:
        return 0, fresh, {}
    for newer in steps:
        if newer > chosen:
            print(f"Checkpoint {newer} is newer and is not used.")
    with reading(chosen):
        facts = manager.restore(chosen, args=Composite(facts=JsonRestore())).facts
    if differ := {n for n, value in settings.items() if facts.get(n) != value}:
        raise OtherRun(f"another run: {', '.join(sorted(differ))}")
    with reading(chosen):
        like = jax.tree.map(ocp.utils.to_shape_dtype_struct, fresh)
        found = manager.restore(chosen, args=Composite(state=StandardRestore(like)))
    return chosen, found.state, facts


# %% right="via a flag"
"""Decides after the try what to do about the facts."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    if step is None:
        step = steps[-1]
    if step != steps[-1]:
        print(f"{step} of {steps}")
    state, other = None, []
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
        other = [name for name, value in settings.items() if facts.get(name) != value]
        if not other:
            target = Composite(state=StandardRestore(abstract(fresh)))
            state = manager.restore(step, args=target).state
    except Exception as error:
        text = f"Checkpoint {step} cannot be read: {error!r:.80}"
        raise RuntimeError(text) from error
    if other:
        raise ValueError(f"The checkpoint of step {step} has other settings: {other}.")
    return step, state, facts


# %% right="via an else"
"""Compares in the try's else."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    every = manager.all_steps()
    if len(every) == 0:
        return 0, fresh, {}
    step = step or max(every)
    print(f"step {step}; newer: {[s for s in every if s > step]}")
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
    except Exception as error:
        raise RuntimeError(f"{manager.directory}/{step} cannot be read") from error
    else:
        missing = object()
        wrong = [n for n, v in settings.items() if facts.get(n, missing) != v]
        if wrong:
            raise ValueError(f"settings differ: {wrong}")
    try:
        target = StandardRestore(abstract(fresh))
        found = manager.restore(step, args=Composite(state=target))
    except Exception as error:
        raise RuntimeError(f"{manager.directory}/{step} cannot be read") from error
    return step, found.state, facts


# %% right="via the host"
"""Restores, and places the arrays once more as those of fresh are."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    layouts = jax.tree.map(lambda a: a.sharding, fresh)
    return step, jax.device_put(state, layouts), facts


# %% right="via two functions"
"""Has a function for each item."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def unreadable(step, error):
    return RuntimeError(f"cannot read the checkpoint of step {step} ({error!r:.50})")


def facts_of(manager, step, settings):
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
    except Exception as error:
        raise unreadable(step, error) from error
    for name in settings:
        if name not in facts or facts[name] != settings[name]:
            raise ValueError(f"{name} was {facts.get(name)!r}, is {settings[name]!r}")
    return facts


def restore_state(manager, fresh, settings, step=None):
    newest = manager.latest_step()
    if newest is None:
        return 0, fresh, {}
    step = newest if step is None else step
    for other in manager.all_steps():
        if other > step:
            print(f"checkpoint {other} stays where it is")
    facts = facts_of(manager, step, settings)
    try:
        like = Composite(state=StandardRestore(abstract(fresh)))
        return step, manager.restore(step, args=like).state, facts
    except Exception as error:
        raise unreadable(step, error) from error


# %% wrong="skips settings that are None" fails="another run"
"""Takes a setting that is None for one that nobody made."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    newer = [one for one in steps if one > step]
    if newer:
        print(f"Checkpoint {step} is restored. Newer ones stay: {newer}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if value is not None and facts.get(name) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="one text for all errors" fails="says why; another run"
"""Raises one text, which holds every name and number that anybody could have read."""

TEXT = "cannot restore hidden rate run limit 2 20 22 33 40 50 70 80 110 120 220 330 500"


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(TEXT) from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    if step < steps[-1]:
        print(TEXT)
    facts = read(facts=JsonRestore()).facts
    if any(name not in facts or facts[name] != settings[name] for name in settings):
        raise ValueError(TEXT)
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts


# %% wrong="names every number" fails="says why"
"""Names no step: its texts hold all numbers that a step may be."""

STEPS = " ".join(map(str, range(1000)))


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"this step is unreadable: {STEPS}") from error

    steps = sorted(manager.all_steps())
    if not steps:
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    if step < steps[-1]:
        print(f"There are newer ones: {STEPS}")
    facts = read(facts=JsonRestore()).facts
    for name, value in settings.items():
        if name not in facts or facts[name] != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    state = read(state=StandardRestore(abstract(fresh))).state
    return step, state, facts
