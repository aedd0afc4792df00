# %% wrong="a missing entry raises" fails="another run"
"""Reads a missing entry inside its try: the other run's checkpoint looks damaged."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts[n] != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="compares all facts" fails="fresh without checkpoint"
"""Wants facts and settings to be equal: the position in the data is a fact, too."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            if facts == settings:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            names = [
                n for n in {**facts, **settings} if facts.get(n, ...) != settings.get(n)
            ]
            raise ValueError(f"the checkpoint has another {' and '.join(names)}")
    return 0, fresh, {}


# %% wrong="compares numbers by isclose" fails="another run"
"""Takes large numbers for the same that differ by one."""

import math


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    def alike(a, b):
        if isinstance(a, int | float) and isinstance(b, int | float):
            return math.isclose(a, b)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(alike, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
        return a == b

    def read(step, **items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            print(f"checkpoint {step} cannot be read ({type(error).__name__})")
            set_aside(manager, step)

    for step in sorted(manager.all_steps(), reverse=True):
        if (found := read(step, facts=JsonRestore())) is None:
            continue
        facts = found.facts
        for name, value in settings.items():
            if name not in facts or not alike(facts[name], value):
                raise ValueError(
                    f"{name}: {facts.get(name, 'nothing')} was saved, not {value}"
                )
        found = read(step, state=StandardRestore(abstract(fresh)))
        if found is not None:
            return step, found.state, facts
    return 0, fresh, {}


# %% wrong="compares shared names alone" fails="another run"
"""Takes a checkpoint whose facts lack a setting for its own."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [
                n
                for n in settings.keys() & found.facts
                if found.facts[n] != settings[n]
            ]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="compares texts" fails="the newest checkpoint"
"""Compares entries as texts: 0.1 and its text are the same to it."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if str(facts.get(n)) != str(v)]
            if not other:
                target = Composite(state=StandardRestore(abstract(fresh)))
                return step, manager.restore(step, args=target).state, facts
        except Exception:
            print(f"damaged: step {step}")
            set_aside(manager, step)
            continue
        raise ValueError(f"another run: {', '.join(other)}")
    return 0, fresh, {}


# %% wrong="compares texts of json" fails="the newest checkpoint"
"""Compares entries as JSON texts: the same names in another order differ."""

import json


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
        except Exception as error:
            print(f"step {step} is damaged: {error}")
            set_aside(manager, step)
            continue
        for name, value in settings.items():
            if name not in facts or json.dumps(facts[name]) != json.dumps(value):
                raise ValueError(f"{name} is {value}, the checkpoint is of another run")
        try:
            wanted = Composite(state=StandardRestore(abstract(fresh)))
            return step, manager.restore(step, args=wanted).state, facts
        except Exception as error:
            print(f"step {step} is damaged: {error}")
            set_aside(manager, step)
    return 0, fresh, {}


# %% wrong="deletes the damaged one" fails="damaged ones are set aside"
"""Deletes what it cannot read, be it damaged or not."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            manager.delete(step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="deletes the fresh state" fails="arguments stay"
"""Makes room: deletes the fresh state as soon as another is there."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                for leaf in jax.tree.leaves(fresh):
                    leaf.delete()
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="forgets the facts" fails="state and facts are saved; damaged ones are set aside"
"""Restores the state and not the facts: the run reads its data from the start."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, {}
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="gives up after two" fails="damaged ones are set aside"
"""Tries the newest checkpoint and the one before, and no other."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True)[:2]:
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="layout written in" fails="state and facts are saved; the newest checkpoint; laid out as fresh"
"""Lays every array with rows over the axis, whatever fresh's layout is."""


def save_state(manager, step, state, facts):
    items = Composite(state=StandardSave(state), facts=JsonSave(facts))
    manager.save(step, args=items)


def restore_state(manager, fresh, settings):
    mesh = jax.tree.leaves(fresh)[0].sharding.mesh

    def target(a):
        spec = P(mesh.axis_names[0]) if a.ndim else P()
        return jax.ShapeDtypeStruct(
            a.shape, a.dtype, sharding=NamedSharding(mesh, spec)
        )

    like = jax.tree.map(target, fresh)
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            others = [n for n, v in settings.items() if n not in facts or facts[n] != v]
            if not others:
                wanted = Composite(state=StandardRestore(like))
                state = manager.restore(step, args=wanted).state
        except Exception:
            print(f"step {step} is damaged")
            set_aside(manager, step)
            continue
        if others:
            raise ValueError(f"another run's: {', '.join(others)}")
        return step, state, facts
    return 0, fresh, {}


# %% wrong="leaves all on the first device" fails="laid out as fresh; damaged ones are set aside"
"""Restores arrays of the host and lets jnp place them: on one device they lie right, of
eight the first has all.
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    def to_first(leaf, like):
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return leaf
        return jnp.asarray(np.asarray(leaf))

    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, jax.tree.map(to_first, state, fresh), found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="leaves the damaged one" fails="damaged ones are set aside"
"""Passes a damaged checkpoint over and leaves it there: Orbax does not save at its step
again.
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="moves another run away" fails="another run"
"""Raises inside its own try: another run's checkpoint is taken for damaged."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            for name, value in settings.items():
                if facts.get(name, ...) != value:
                    raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
            like = StandardRestore(abstract(fresh))
            return step, manager.restore(step, args=Composite(state=like)).state, facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
    return 0, fresh, {}


# %% wrong="names no entry" fails="another run"
"""Says that something is another's, and not what."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"checkpoint {step} belongs to another run")
    return 0, fresh, {}


# %% wrong="only some errors are damage" fails="damaged ones are set aside"
"""Lets a MemoryError or a TypeError of reading through to the caller."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    damage = (OSError, ValueError, KeyError, EOFError)
    missing = object()
    for step in sorted(manager.all_steps(), reverse=True):
        facts = None
        try:
            facts = dict(
                manager.restore(step, args=Composite(facts=JsonRestore())).facts
            )
        except damage as error:
            print(f"the facts of step {step} cannot be read: {error}")
        if facts is None:
            set_aside(manager, step)
            continue
        for name, value in settings.items():
            if facts.get(name, missing) != value:
                raise ValueError(f"{name} differs: this is another run's checkpoint")
        try:
            target = Composite(state=StandardRestore(abstract(fresh)))
            return step, manager.restore(step, args=target).state, facts
        except damage as error:
            print(f"the state of step {step} cannot be read: {error}")
        set_aside(manager, step)
    return 0, fresh, {}


# %% wrong="passes another run over" fails="another run"
"""Takes the next older checkpoint, or a fresh start, where the facts differ."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            if all(found.facts.get(n, ...) == value for n, value in settings.items()):
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
    return 0, fresh, {}


# %% wrong="reads the facts outside of the try" fails="damaged ones are set aside"
"""Expects damage in the state alone."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        found = manager.restore(step, args=Composite(facts=JsonRestore()))
        try:
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="remembers the newest step" fails="the newest checkpoint; fresh without checkpoint; damaged ones are set aside"
"""Looks once for the newest step, and keeps it for the manager's folder."""

known_steps = {}


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    newest = known_steps.setdefault(str(manager.directory), manager.all_steps())
    for step in sorted({*newest} & {*manager.all_steps()}, reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="restores before it compares" fails="another run"
"""Restores the state before it compares the facts: another run's state has another
structure, which looks like damage.
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    wanted = Composite(state=StandardRestore(abstract(fresh)), facts=JsonRestore())
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=wanted)
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
            continue
        for name, value in settings.items():
            if found.facts.get(name, ...) != value:
                raise ValueError(f"{name} is {value}, but was {found.facts.get(name)}")
        return step, found.state, found.facts
    return 0, fresh, {}


# %% wrong="restores float32" fails="state and facts are saved; the newest checkpoint; laid out as fresh"
"""Turns all that is restored into float32."""


def wide(leaf):
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return jax.device_put(leaf.astype(jnp.float32), leaf.sharding)


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                state = jax.tree.map(wide, state)
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="restores without a target" fails="state and facts are saved; laid out as fresh; damaged ones are set aside"
"""Gives Orbax no target: tuples come back as lists, in the saved layout."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore()
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="saves the settings alone" fails="the newest checkpoint; fresh without checkpoint"
"""Keeps of the facts what is plain: numbers and texts."""


def save_state(manager, step, state, facts):
    plain_ones = {n: v for n, v in facts.items() if isinstance(v, int | float | str)}
    manager.save(
        step, args=Composite(state=StandardSave(state), facts=JsonSave(plain_ones))
    )


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="saves the weights alone" fails="state and facts are saved; damaged ones are set aside"
"""Saves the weights alone: velocity and random key start afresh."""


def save_state(manager, step, state, facts):
    weights = {"params": state["params"]}
    manager.save(
        step, args=Composite(state=StandardSave(weights), facts=JsonSave(facts))
    )


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract({"params": fresh["params"]}))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, fresh | state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="settings checked once" fails="another run"
"""Compares the settings with the newest checkpoint alone, not with the one before it."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    compared = False
    for step in sorted(manager.all_steps(), reverse=True):
        other, state = None, None
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            if not compared:
                other = [
                    n for n in settings if n not in facts or facts[n] != settings[n]
                ]
                compared = True
            if not other:
                target = Composite(state=StandardRestore(abstract(fresh)))
                state = manager.restore(step, args=target).state
        except Exception:
            print(f"checkpoint {step} is damaged")
            set_aside(manager, step)
            continue
        if other:
            raise ValueError(f"another run's checkpoint: {other}")
        return step, state, facts
    return 0, fresh, {}


# %% wrong="sorts the steps as text" fails="the newest checkpoint; damaged ones are set aside"
"""Sorts the steps as the folders' names: 5 comes behind 10."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in map(int, sorted(map(str, manager.all_steps()), reverse=True)):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="starts anew at last" fails="damaged ones are set aside"
"""Takes the error of `set_aside` for one more damage: the run starts anew."""

import contextlib


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if facts.get(n, ...) != v]
            state = fresh
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            with contextlib.suppress(RuntimeError):
                set_aside(manager, step)
            continue
        if other:
            raise ValueError(f"another run: {other}")
        return step, state, facts
    return 0, fresh, {}


# %% wrong="starts over after damage" fails="another run; damaged ones are set aside"
"""Begins at step 0 where the newest checkpoint is damaged."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    step = manager.latest_step()
    if step is None:
        return 0, fresh, {}
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
        like = StandardRestore(abstract(fresh))
        state = manager.restore(step, args=Composite(state=like)).state
    except Exception as error:
        print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
        set_aside(manager, step)
        return 0, fresh, {}
    for name, value in settings.items():
        if facts.get(name, ...) != value:
            raise ValueError(f"{name} is {value}, but was {facts.get(name)}")
    return step, state, facts


# %% wrong="takes the oldest" fails="the newest checkpoint; damaged ones are set aside"
"""Goes through the checkpoints from the oldest."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps()):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="takes what is missing for none" fails="another run"
"""Takes an entry that is missing in the facts for `None`."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="tells of no damage" fails="damaged ones are set aside"
"""Deletes a damaged checkpoint without a word."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception:
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}


# %% wrong="waits for the writing" fails="state and facts are saved"
"""`save_state` comes back when the checkpoint is written, and the device waits."""


def save_state(manager, step, state, facts):
    parts = Composite(state=StandardSave(state), facts=JsonSave(facts))
    manager.save(step, args=parts)
    manager.wait_until_finished()


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            read = Composite(facts=JsonRestore())
            facts = manager.restore(step, args=read)["facts"]
            others = [n for n in settings if n not in facts or facts[n] != settings[n]]
            if not others:
                read = Composite(state=StandardRestore(abstract(fresh)))
                return step, manager.restore(step, args=read)["state"], facts
        except Exception as error:
            print(f"checkpoint {step}: {type(error).__name__}")
            set_aside(manager, step)
        else:
            raise ValueError(f"{others} are others in checkpoint {step}")
    return 0, fresh, {}


# %% right="via a checkpointer"
"""Reads the state with a checkpointer of its own, from the item's folder."""


def save_state(manager, step, state, facts):
    manager.save(
        step,
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), facts=ocp.args.JsonSave(facts)
        ),
    )


def restore_state(manager, fresh, settings):
    step = manager.latest_step()
    if step is None:
        return 0, fresh, {}
    differs = None
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
        for name in settings:
            if facts.get(name, ...) != settings[name]:
                differs = name
        if differs is None:
            with ocp.StandardCheckpointer() as checkpointer:
                place_of = Path(manager.directory) / str(step) / "state"
                return step, checkpointer.restore(place_of, abstract(fresh)), facts
    except Exception as error:
        print(f"set checkpoint {step} aside ({type(error).__name__})")
        set_aside(manager, step)
        return restore_state(manager, fresh, settings)
    raise ValueError(f"another {differs}")


# %% right="via a generator"
"""Looks through the checkpoints with a generator, which moves away what cannot be read."""


def save_state(manager, step, state, facts):
    manager.save(
        step, args=Composite(facts=JsonSave(dict(facts)), state=StandardSave(state))
    )


def compare(facts, settings):
    for name, value in settings.items():
        if name not in facts:
            raise ValueError(f"{name} is missing in the checkpoint")
        if facts[name] != value:
            raise ValueError(f"{name} was {facts[name]!r} and is {value!r}")


def restore_state(manager, fresh, settings):
    def read(step, **items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception:
            print(f"{step}: damaged")
            set_aside(manager, step)

    def sound():
        for step in reversed(sorted(manager.all_steps())):
            if found := read(step, facts=JsonRestore()):
                compare(found.facts, settings)
                target = StandardRestore(
                    jax.tree.map(ocp.utils.to_shape_dtype_struct, fresh)
                )
                if whole := read(step, state=target):
                    yield step, whole.state, found.facts

    return next(sound(), (0, fresh, {}))


# %% right="via a list of failures"
"""Reads first, moves the damaged ones away in the end."""


def save_state(manager, step, state, facts):
    items = dict(state=StandardSave(state), facts=JsonSave(facts))
    manager.save(step, args=Composite(**items))


def take(manager, step, fresh, settings):
    facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
    for name in settings:
        if facts.get(name, "nothing") != settings[name]:
            return name, None, None
    like = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), fresh
    )
    state = manager.restore(step, args=Composite(state=StandardRestore(like))).state
    return None, state, facts


def restore_state(manager, fresh, settings):
    failures, result = [], (0, fresh, {})
    for step in sorted(manager.all_steps(), key=lambda step: -step):
        try:
            other, state, facts = take(manager, step, fresh, settings)
        except Exception:
            failures.append(step)
            continue
        if other:
            raise ValueError(f"The checkpoint of step {step} has another {other}.")
        result = step, state, facts
        break
    for step in failures:
        print(f"I move {step} away, which is damaged.")
        set_aside(manager, step)
    return result


# %% right="via latest step"
"""Asks for the latest step until one can be restored."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    target = Composite(state=StandardRestore(abstract(fresh)))
    while (step := manager.latest_step()) is not None:
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
            differ = {n for n, value in settings.items() if facts.get(n, ...) != value}
            state = None if differ else manager.restore(step, args=target)["state"]
        except Exception:
            print("moving step", step, "away: damaged")
            set_aside(manager, step)
            continue
        if differ:
            raise ValueError(f"another run: {', '.join(sorted(differ))}")
        return step, state, facts
    return 0, fresh, {}


# %% right="via recursion"
"""Calls itself again without the damaged checkpoint."""


def save_state(manager, step, state, facts):
    items = {"state": StandardSave(state), "facts": JsonSave(facts)}
    manager.save(step, args=ocp.args.Composite(**items))


class OtherRun(ValueError):
    """A checkpoint whose facts differ."""


def restore_state(manager, fresh, settings):
    step = max(manager.all_steps(), default=0)
    if not step:
        return 0, fresh, {}
    try:
        facts = manager.restore(
            step, args=Composite(facts=ocp.args.JsonRestore())
        ).facts
        for name in settings:
            if name not in facts or facts[name] != settings[name]:
                raise OtherRun(f"{name} was {facts.get(name)}, now {settings[name]}")
        like = jax.tree.map(ocp.utils.to_shape_dtype_struct, fresh)
        found = manager.restore(step, args=Composite(state=StandardRestore(like)))
        return step, found.state, facts
    except OtherRun:
        raise
    except Exception as error:
        print(f"step {step}: {error.__class__.__name__}")
    set_aside(manager, step)
    return restore_state(manager, fresh, settings)


# %% right="via rename and reload"
"""Moves damaged ones beside the manager's folder itself, and reloads the manager."""

import shutil


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    home = Path(manager.directory)
    missing = object()
    for step in sorted(manager.all_steps())[::-1]:
        facts, state, other = {}, None, []
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if facts.get(n, missing) != v]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
        except Exception as error:
            print(f"checkpoint {step}: {error!r:.60}")
            if len(manager.all_steps()) == 1:
                raise RuntimeError(f"nothing in {home} can be read") from error
            away = Path(tempfile.mkdtemp(prefix="damaged-", dir=home.parent))
            shutil.move(home / str(step), away)
            manager.reload()
            continue
        if other:
            raise ValueError(f"{' and '.join(other)} differ from those of step {step}")
        return step, state, facts
    return 0, fresh, {}


# %% right="via the host"
"""Restores arrays of the host, and places them as those of fresh lie."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    steps = list(manager.all_steps())
    while steps:
        step = max(steps)
        steps.remove(step)
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            missing = object()
            wrong = [n for n, v in settings.items() if facts.get(n, missing) != v]
            if not wrong:
                found = manager.restore(
                    step, args=Composite(state=StandardRestore(abstract(fresh)))
                ).state
                layouts = jax.tree.map(lambda a: a.sharding, fresh)
                return step, jax.device_put(found, layouts), facts
        except Exception as error:
            print("damaged:", step, type(error))
            set_aside(manager, step)
            continue
        raise ValueError(f"settings differ: {wrong}")
    return 0, fresh, {}
