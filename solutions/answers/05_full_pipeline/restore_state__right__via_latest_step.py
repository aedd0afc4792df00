"""Asks for the latest step until one can be restored."""


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    target = Composite(state=StandardRestore(abstract(fresh)))
    while (step := manager.latest_step()) is not None:
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
            differ = {n for n, value in settings.items() if facts.get(n, ...) != value}
            state = None if differ else manager.restore(step, args=target)["state"]
        except Exception:
            print("moving step", step, "away: damaged")
            set_aside(manager, step)
            continue
        if differ:
            raise ValueError(f"another run: {', '.join(sorted(differ))}")
        return step, state, facts
    return 0, fresh, {}
