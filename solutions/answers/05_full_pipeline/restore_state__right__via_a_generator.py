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
