"""Wants facts and settings to be equal: the position in the data is a fact, too.

Told: none
Fails: fresh without checkpoint
"""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            if facts == settings:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            set_aside(manager, step)
        else:
            names = [
                n for n in {**facts, **settings} if facts.get(n, ...) != settings.get(n)
            ]
            raise ValueError(f"the checkpoint has another {' and '.join(names)}")
    return 0, fresh, {}
