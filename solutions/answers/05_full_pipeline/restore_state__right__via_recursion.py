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
