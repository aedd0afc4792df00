"""Restores the state before it compares the facts: another run's state has another
structure, which looks like damage.

Told: none
Fails: another run
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
