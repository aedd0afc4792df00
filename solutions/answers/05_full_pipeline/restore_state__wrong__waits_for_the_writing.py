"""`save_state` comes back when the checkpoint is written, and the device waits.

Told: none
Fails: state and facts are saved
"""


def save_state(manager, step, state, facts):
    parts = Composite(state=StandardSave(state), facts=JsonSave(facts))
    manager.save(step, args=parts)
    manager.wait_until_finished()


def restore_state(manager, fresh, settings):
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            read = Composite(facts=JsonRestore())
            facts = manager.restore(step, args=read)["facts"]
            others = [n for n in settings if n not in facts or facts[n] != settings[n]]
            if not others:
                read = Composite(state=StandardRestore(abstract(fresh)))
                return step, manager.restore(step, args=read)["state"], facts
        except Exception as error:
            print(f"checkpoint {step}: {type(error).__name__}")
            set_aside(manager, step)
        else:
            raise ValueError(f"{others} are others in checkpoint {step}")
    return 0, fresh, {}
