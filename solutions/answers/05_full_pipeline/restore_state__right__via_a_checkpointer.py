"""Reads the state with a checkpointer of its own, from the item's folder."""


def save_state(manager, step, state, facts):
    manager.save(
        step,
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), facts=ocp.args.JsonSave(facts)
        ),
    )


def restore_state(manager, fresh, settings):
    step = manager.latest_step()
    if step is None:
        return 0, fresh, {}
    differs = None
    try:
        facts = manager.restore(step, args=Composite(facts=JsonRestore()))["facts"]
        for name in settings:
            if facts.get(name, ...) != settings[name]:
                differs = name
        if differs is None:
            with ocp.StandardCheckpointer() as checkpointer:
                place_of = Path(manager.directory) / str(step) / "state"
                return step, checkpointer.restore(place_of, abstract(fresh)), facts
    except Exception as error:
        print(f"set checkpoint {step} aside ({type(error).__name__})")
        set_aside(manager, step)
        return restore_state(manager, fresh, settings)
    raise ValueError(f"another {differs}")
