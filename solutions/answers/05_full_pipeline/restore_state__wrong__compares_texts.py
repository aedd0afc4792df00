"""Compares entries as texts: 0.1 and its text are the same to it.

Told: none
Fails: the newest checkpoint
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if str(facts.get(n)) != str(v)]
            if not other:
                target = Composite(state=StandardRestore(abstract(fresh)))
                return step, manager.restore(step, args=target).state, facts
        except Exception:
            print(f"damaged: step {step}")
            set_aside(manager, step)
            continue
        raise ValueError(f"another run: {', '.join(other)}")
    return 0, fresh, {}
