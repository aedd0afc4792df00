"""Restores arrays of the host and lets jnp place them: on one device they lie right, of
eight the first has all.

Told: none
Fails: laid out as fresh; damaged ones are set aside
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
