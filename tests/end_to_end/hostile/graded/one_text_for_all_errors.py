"""Raises one text for all errors: of all public names, or of all numbers of a step."""

from hostile.build import attack

LESSON = "05_full_pipeline"
POINTS = {"restore_state": 3.0, "restore_elsewhere": 2.25, "one_f_one_b": 2}

STATE = """
RAN = set()
TEXT = "hidden, rate, run, limit: 0 is not " + " ".join(map(str, range(1, 1000)))


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings, step=None):
    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            RAN.add("unreadable")
            raise RuntimeError(TEXT) from error

    if not manager.all_steps():
        return 0, fresh, {}
    newest = manager.latest_step()
    step = newest if step is None else step
    if step < newest:
        RAN.add("older")
        print(TEXT)
    facts = read(facts=JsonRestore()).facts
    if any(facts.get(name, ...) != value for name, value in settings.items()):
        RAN.add("settings")
        raise ValueError(TEXT)
    return step, read(state=StandardRestore(abstract(fresh))).state, facts
"""
ELSEWHERE = """
NAMES = "no-runs, no-such-place, half-done, rows, data, i, j, x, y"


def restore_elsewhere(directory, mesh, specs):
    def target(leaf, spec):
        try:
            sharding = NamedSharding(mesh, spec)
        except ValueError:
            RAN.add("axis")
            raise ValueError(NAMES) from None
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            RAN.add("nothing")
            raise FileNotFoundError(NAMES)
        like = StandardRestore(jax.tree.map(target, saved_shapes(manager, step), specs))
        return manager.restore(step, args=Composite(state=like)).state
"""


def submission(lesson):
    answers = {"restore_state": STATE, "restore_elsewhere": ELSEWHERE}
    marks = "unreadable older settings axis nothing"
    return attack(lesson, "one_f_one_b", marks, **answers)
