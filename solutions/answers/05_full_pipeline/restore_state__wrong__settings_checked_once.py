"""Compares the settings with the newest checkpoint alone, not with the one before it.

Told: none
Fails: another run
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    compared = False
    for step in sorted(manager.all_steps(), reverse=True):
        other, state = None, None
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            if not compared:
                other = [
                    n for n in settings if n not in facts or facts[n] != settings[n]
                ]
                compared = True
            if not other:
                target = Composite(state=StandardRestore(abstract(fresh)))
                state = manager.restore(step, args=target).state
        except Exception:
            print(f"checkpoint {step} is damaged")
            set_aside(manager, step)
            continue
        if other:
            raise ValueError(f"another run's checkpoint: {other}")
        return step, state, facts
    return 0, fresh, {}
