"""Lesson 5's runs and checkpoints are judged by the files that they leave.

A learner's process makes these files; it does not report what is in them. So a cheat
that replaces what observes in its own process, and has written no program that trains,
saves and restores, earns nothing.
"""

import contextlib

import pytest

from grader import ROOT
from grader.authoring.lesson import read_lesson
from grader.containment.backend import backend
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.kernel.learner_box import fork_server
from grader.lessons.release import dumps, exercises, release
from grader.results import Status
from grader.submissions.read_submission import parse_submission

NAME = "05_full_pipeline"
STUBS = {
    "restore_state": """\
def save_state(manager, step, state, facts): pass
def restore_state(manager, fresh, settings, step=None): return 0, fresh, {}
""",
    "restore_elsewhere": "def restore_elsewhere(directory, mesh, specs): return {}\n",
    "fit": "def fit(config): return {}\n",
}
# It is right if a cheat was in place: its points show that the payload ran.
WITNESS = (
    "\n\ntruthful = one_f_one_b\none_f_one_b = lambda S, M: used and truthful(S, M)"
)
HELPERS = """\
import gc, json, sys, tempfile, types

KILLED = "The process was killed by SIGKILL."
names = sys.modules["grader.kernel.inside.responder"].checks[0].namespace
found = [one for one in gc.get_objects() if isinstance(one, types.FunctionType)
         and one.__name__ == "go_on" and one.__globals__ is names]
assert found  # they are reached in either way
used = []


def replaced(helper):
    names[helper.__name__] = lambda *a, **k: used.append(1) or helper(*a, **k)


"""
CHEATS = {
    "helpers that return None": HELPERS
    + """\
for name in "go_on moved whole_on_their_way run_once begin refused other_run".split():
    exec(f"def {name}(*arguments): return None")
    replaced(globals()[name])
""",
    "helpers that forge the facts": HELPERS
    + """\
def go_on(files, kind, devices, stop, seed, keep):
    state = names["plain"](names["state_of"](kind, devices, seed))
    facts = names["run_settings"](position=7) if files else {}
    found = {"state": state, "facts": facts, "unlike": ""}
    found |= {"files": files or names["checkpoints_of"](kind, {stop: seed}, 8)}
    return found | {"began": [7 * bool(files), stop]}

def moved(files, devices, mesh_names, specs, *explicit):
    tree = {"w": np.arange(64, dtype=np.float32).reshape(16, 4), "b": np.arange(8)}
    return {name: jnp.asarray(tree.get(name, 0)) for name in specs}

def whole_on_their_way(*arguments): return []

def run_once(changes, files=None):  # trained on one device; nothing is restored
    found = names["alone"](changes)
    folder = names["unpacked"](files) if files else tempfile.mkdtemp()
    with open(f"{folder}/metrics.jsonl", "w") as log:
        for step, loss in zip(found["logged"], found["losses"]):
            log.write(json.dumps({"step": int(step), "loss": float(loss)}) + chr(10))
    facts = names["settings_of"](config_of("", **changes))
    with open_manager(f"{folder}/checkpoints", changes.get("keep", 2)) as manager:
        for step in (15, 30, 40):
            names["save_by_orbax"](manager, step, {"params": found["params"]}, facts)
    return {"params": found["params"], "in other layouts": [], "early": [],
            "config stays": True, "ended": "finished", "files": names["packed"](folder)}

def begin(changes, num_processes):
    ended = KILLED if changes.get("cut_at") else "finished"
    return {"ended": ended, "files": run_once(changes)["files"]}

for helper in (go_on, moved, whole_on_their_way, run_once, begin):
    replaced(helper)
""",
    "another run_script": HELPERS
    + """\
from coursekit import processes


def run_script(*arguments, **options):
    return KILLED


processes.run_script = run_script
replaced(run_script)
used.append(1)
""",
    "patched libraries": """\
import json, subprocess
import orbax.checkpoint as ocp

used = []


class Process:
    returncode = -9

    def __init__(self, *arguments, **options): used.append(1)
    def poll(self): return -9
    def kill(self): pass
    def wait(self, *timeout): return -9


subprocess.Popen = Process
for name, value in {
    "all_steps": [15, 30, 40], "latest_step": 40, "save": True, "restore": {},
}.items():
    lie = lambda *a, _value=value, **k: used.append(1) or _value
    setattr(ocp.CheckpointManager, name, lie)
loads = json.loads
json.loads = lambda text, **k: loads(text, **k) | {"lost": [], "unlike": ""}
""",
}


@pytest.fixture(scope="module")
def lesson():
    return read_lesson(ROOT / f"solutions/{NAME}.py", "https://example.org/ada/course")


@pytest.fixture(scope="module")
def judge(contained_here, lesson):
    if backend() == "bubblewrap":
        fork_server(start=True)
    with contextlib.closing(JudgeProcess(lesson)) as judge:
        yield judge


def graded(lesson, judge, answers):
    notebook = release(lesson)
    for name, source in answers.items():
        exercises(notebook)[name].source = f"# exercise: {name}\n{source}"
    submitted = parse_submission(dumps(notebook).encode())
    limits = Limits(wall_s=120)
    result = grade_submission(submitted, lesson, NAME, judge, limits)
    points = {one.exercise: one.points for one in result.exercises}
    return result, {name: points[name] for name in answers}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_a_cheat_that_replaces_what_observes_earns_nothing(cheat, lesson, judge):
    witness = exercises(lesson)["one_f_one_b"].source + WITNESS
    first = {"restore_state": cheat + STUBS["restore_state"]}
    answers = STUBS | first | {"one_f_one_b": witness}
    result, points = graded(lesson, judge, answers)
    assert points == dict.fromkeys(STUBS, 0) | {"one_f_one_b": 2}, result
    assert result.status is not Status.NEEDS_REVIEW, result.reasons


def test_what_is_right_is_paid_beside_the_session_that_reads_files(lesson, judge):
    answers = {name: exercises(lesson)[name].source for name in STUBS}
    answers |= {"batches": exercises(lesson)["batches"].source}
    answers |= {"make_train_step": exercises(lesson)["make_train_step"].source}
    result, points = graded(lesson, judge, answers)
    wanted = {"restore_state": 4, "restore_elsewhere": 3, "fit": 6}
    assert points == wanted | {"batches": 3, "make_train_step": 4}, result
    assert result.status is Status.GRADED
