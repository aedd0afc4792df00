"""Takes large numbers for the same that differ by one.

Told: none
Fails: another run
"""

import math


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    def alike(a, b):
        if isinstance(a, int | float) and isinstance(b, int | float):
            return math.isclose(a, b)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(alike, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
        return a == b

    def read(step, **items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            print(f"checkpoint {step} cannot be read ({type(error).__name__})")
            set_aside(manager, step)

    for step in sorted(manager.all_steps(), reverse=True):
        if (found := read(step, facts=JsonRestore())) is None:
            continue
        facts = found.facts
        for name, value in settings.items():
            if name not in facts or not alike(facts[name], value):
                raise ValueError(
                    f"{name}: {facts.get(name, 'nothing')} was saved, not {value}"
                )
        found = read(step, state=StandardRestore(abstract(fresh)))
        if found is not None:
            return step, found.state, facts
    return 0, fresh, {}
