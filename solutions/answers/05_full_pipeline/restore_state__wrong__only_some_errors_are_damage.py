"""Lets a MemoryError or a TypeError of reading through to the caller.

Told: none
Fails: damaged ones are set aside
"""


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
