"""Takes a checkpoint whose facts lack a setting for its own.

Told: none
Fails: another run
"""


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
