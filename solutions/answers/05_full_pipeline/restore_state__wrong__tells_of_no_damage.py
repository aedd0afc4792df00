"""Deletes a damaged checkpoint without a word.

Told: none
Fails: damaged ones are set aside
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n, ...) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception:
            set_aside(manager, step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}
