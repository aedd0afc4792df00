"""Takes the next older checkpoint, or a fresh start, where the facts differ.

Told: none
Fails: another run
"""


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
