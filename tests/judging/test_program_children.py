"""What a program does to its process ends there; what it says is not trusted."""

import copy
import json
import subprocess
import sys

import pytest

from coursekit.observation import Collective, Shard
from grader import ROOT
from grader.judging.program_facts import decode_facts, encode_facts
from grader.kernel.inside.wire import WireError

# In a process of its own: in this one, JAX has started.
START = """\
import contextlib, ctypes, json, os, pathlib, signal, sys

from grader.judging import program_children
from grader.judging.program_runner import ProgramRunner

answer = ProgramRunner.answer
started = pathlib.Path("started")


def answering(self, question, looks):
    with started.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return does(self, question, looks)


def honest(self, question, looks):
    return answer(self, question, looks)


does = honest
ProgramRunner.answer = answering
"""
GO = """
children = program_children.ProgramChildren()
children.wall_s = wall_s

import numpy as np
from coursekit import setup
from coursekit.tracing import exported
from grader.kernel.inside.wire import WireError, encode

with contextlib.redirect_stdout(sys.stderr):
    setup.with_devices(4)

import jax

X = np.arange(8, dtype=np.float32).reshape(4, 2)
TOTAL = jax.pmap(lambda row: jax.lax.psum(row, "i"), axis_name="i")


def question(function):
    program, result = exported(function, [X])
    asked = {"program": program.mlir_module(), "result": encode(result), "kept": None}
    return asked | {"arguments": encode([X]), "compiled": False, "axis": None}


found = {}
try:
    for looks in (True, False):
        found["answer"] = children.answer(question(tested), looks)
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
children.end()
if started.exists():
    found["children"] = len({*started.read_text().split()})
    found["left"] = [n for n in started.read_text().split() if running(n)]
print(json.dumps(found))
"""
RUNNING = """
def running(number):
    status = pathlib.Path("/proc", number, "status")
    with contextlib.suppress(OSError):
        return not any(f"State:\\t{gone}" in status.read_text() for gone in "ZX")
"""


def found(folder, does="", function="lambda x: TOTAL(x)", wall_s=60):
    given = f"wall_s = {wall_s}\ndef tested(x): return ({function})(x)\n"
    code = START + does + RUNNING + given + GO
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'lessons'}", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_program_is_looked_at_and_run_in_one_child(tmp_path):
    seen = found(tmp_path)
    assert (seen["children"], seen["left"]) == (1, [])
    facts = decode_facts(seen["answer"])
    assert facts["value"].tolist() == [[12.0, 16.0]] * 4
    assert facts["collectives"] == (Collective("all-reduce", "add", "f32", (2,), 4),)
    assert facts["layout"][""][1] == Shard(1, ((1, 2), (0, 2)))


ENDLESS = "lambda x: jax.lax.while_loop(lambda y: True, lambda y: y + 1, x)"
ABORTS = "lambda x: x + jax.lax.iota(np.float32, 2**62)[:2]"  # more than XLA can count


def test_an_endless_program_ends_with_its_child(tmp_path):
    seen = found(tmp_path, function=ENDLESS, wall_s=1)
    assert seen["error"] == "ChildEnded: timed out"
    assert (seen["children"], seen["left"]) == (1, [])


def test_a_program_that_aborts_ends_its_child_and_the_one_after_it(tmp_path):
    seen = found(tmp_path, function=ABORTS)
    assert seen["error"] == "ChildEnded: died"
    assert (seen["children"], seen["left"]) == (2, [])


KILLED_ONCE = """
def does(self, question, looks):
    if len(started.read_text().split()) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(self, question, looks)
"""


def test_what_a_child_that_somebody_killed_did_not_answer_the_next_one_does(tmp_path):
    seen = found(tmp_path, KILLED_ONCE)
    assert decode_facts(seen["answer"])["value"].tolist() == [[12.0, 16.0]] * 4
    assert (seen["children"], seen["left"]) == (2, [])


TAKES_MEMORY = """
def does(self, question, looks):
    return {"fails": f"took {len(bytearray(5 * 2**30))}"}
"""


def test_a_child_gets_no_more_memory_than_its_limit(tmp_path):
    assert found(tmp_path, TAKES_MEMORY)["error"] == "ChildEnded: died"


SPEAKS = """
def does(self, question, looks):
    for number in range(3, 100):
        with contextlib.suppress(OSError):
            text = {text}
            frame = program_children.FRAME.pack(b"r", {number}, len(text)) + text
            os.write(number, frame)
    return answer(self, question, looks)
"""


def test_an_answer_that_is_none_of_ours_is_no_answer(tmp_path):
    seen = found(tmp_path, SPEAKS.format(text='b"[1]"', number=1))
    assert seen["error"] == "WireError: The answer holds no object."


def test_an_answer_to_another_question_is_not_read(tmp_path):
    seen = found(tmp_path, SPEAKS.format(text="b'{}'", number=7))
    assert decode_facts(seen["answer"])["value"].tolist() == [[12.0, 16.0]] * 4


def test_a_flood_of_answers_ends_the_child(tmp_path):
    flood = SPEAKS.format(text="bytes(2**20)", number=7)
    flood = flood.replace(
        "os.write(number, frame)", "while True: os.write(number, frame)"
    )
    seen = found(tmp_path, flood)
    assert (seen["error"], seen["left"]) == ("ChildEnded: died", [])


# What a program that has taken over its child may write.

DID = {
    "collectives": (Collective("all-gather", "", "f32", (3,), 8, True, None),),
    "array_shapes": ((3,), ()),
    "dtypes": {"matmul": ("f32",)},
    "flops": 7.0,
}
GOOD = json.loads(json.dumps(encode_facts(DID, {"y": 3}, {})))


def test_facts_are_read_as_they_were_written():
    assert decode_facts(GOOD) == {**DID, "value": {"y": 3}, "layout": {}}


FORGED = [
    ("facts", None),
    ("facts", {}),
    ("value", {"set": []}),
    ("value", {"array": "float32", "shape": [2**20], "data": ""}),
    ("layout", {"": []}),
    ("verdict", "PASSED"),
    ("facts.collectives", [["all-reduce"]]),
    ("facts.collectives", [["all-reduce", "", "f32", [3], 8, 1, 1]]),
    ("facts.collectives", [["all-reduce", "", "f32", [3], -8, False, 1]]),
    ("facts.collectives", [["x" * 101, "", "f32", [3], 8, False, 1]]),
    ("facts.array_shapes", [[1.0]]),
    ("facts.array_shapes", [[2**64]]),
    ("facts.dtypes", {"matmul": "f32"}),
    ("facts.dtypes", {"matmul": [32]}),
    ("facts.flops", "many"),
    ("facts.flops", float("nan")),
    ("facts.value", 3),
]


@pytest.mark.parametrize(("name", "value"), FORGED, ids=range(len(FORGED)))
def test_forged_facts_are_refused(name, value):
    forged = copy.deepcopy(GOOD)
    *outer, last = name.split(".")
    place = forged["facts"] if outer else forged
    place[last] = value
    with pytest.raises(WireError):
        decode_facts(forged)
