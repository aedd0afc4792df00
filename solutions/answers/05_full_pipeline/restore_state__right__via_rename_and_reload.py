"""Moves damaged ones beside the manager's folder itself, and reloads the manager."""

import shutil


def save_state(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def restore_state(manager, fresh, settings):
    home = Path(manager.directory)
    missing = object()
    for step in sorted(manager.all_steps())[::-1]:
        facts, state, other = {}, None, []
        try:
            facts = manager.restore(step, args=Composite(facts=JsonRestore())).facts
            other = [n for n, v in settings.items() if facts.get(n, missing) != v]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
        except Exception as error:
            print(f"checkpoint {step}: {error!r:.60}")
            if len(manager.all_steps()) == 1:
                raise RuntimeError(f"nothing in {home} can be read") from error
            away = Path(tempfile.mkdtemp(prefix="damaged-", dir=home.parent))
            shutil.move(home / str(step), away)
            manager.reload()
            continue
        if other:
            raise ValueError(f"{' and '.join(other)} differ from those of step {step}")
        return step, state, facts
    return 0, fresh, {}
