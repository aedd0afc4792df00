"""Takes the error of `set_aside` for one more damage: the run starts anew.

Told: none
Fails: damaged ones are set aside
"""

import contextlib


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if facts.get(n, ...) != v]
            state = fresh
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            with contextlib.suppress(RuntimeError):
                set_aside(manager, step)
            continue
        if other:
            raise ValueError(f"another run: {other}")
        return step, state, facts
    return 0, fresh, {}
