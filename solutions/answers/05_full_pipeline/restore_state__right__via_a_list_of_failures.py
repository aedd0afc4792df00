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
