"""Begins at step 0 where the newest checkpoint is damaged.

Told: none
Fails: another run; damaged ones are set aside
"""


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
