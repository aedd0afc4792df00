"""Keeps of the facts what is plain: numbers and texts.

Told: none
Fails: the newest checkpoint; fresh without checkpoint
"""


def save_state(manager, step, state, facts):
    plain_ones = {n: v for n, v in facts.items() if isinstance(v, int | float | str)}
    manager.save(
        step, args=Composite(state=StandardSave(state), facts=JsonSave(plain_ones))
    )


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
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
