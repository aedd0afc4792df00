"""Compares entries as JSON texts: the same names in another order differ.

Told: none
Fails: the newest checkpoint
"""

import json


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
        except Exception as error:
            print(f"step {step} is damaged: {error}")
            set_aside(manager, step)
            continue
        for name, value in settings.items():
            if name not in facts or json.dumps(facts[name]) != json.dumps(value):
                raise ValueError(f"{name} is {value}, the checkpoint is of another run")
        try:
            wanted = Composite(state=StandardRestore(abstract(fresh)))
            return step, manager.restore(step, args=wanted).state, facts
        except Exception as error:
            print(f"step {step} is damaged: {error}")
            set_aside(manager, step)
    return 0, fresh, {}
