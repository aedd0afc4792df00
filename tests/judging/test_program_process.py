"""What a program does to its process ends there; what it says is not trusted."""

import json
import subprocess
import sys

import pytest

from coursekit.observation import Collective, Shard
from grader import ROOT
from grader.judging.observation_reader import decode_facts, encode_facts
from grader.kernel.inside.wire import WireError

# In a process of its own: in this one, JAX has started.
START = """\
import contextlib, json, os, pathlib, struct, sys, time

from grader.judging import program_process
from grader.judging.exported_program import ProgramRunner

answer = ProgramRunner.answer
started = pathlib.Path("started")


def answering(self, question):
    with started.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return does(self, question)


def honest(self, question):
    return answer(self, question)


does = honest
ProgramRunner.answer = answering
"""
GO = """
children = program_process.ProgramProcess()
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
    asked = {"program": program.mlir_module(), "result": encode(result)}
    return asked | {"arguments": encode([X]), "compiled": False, "axis": None}


found = {}
try:
    for _ in range(2):
        found["answer"] = json.loads(children.answer(question(tested)))
        found.setdefault("first", found["answer"])
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
children.begin_submission()
wait_until_ended()
if started.exists():
    found["children"] = len({*started.read_text().split()})
    found["left"] = [n for n in started.read_text().split() if running(n)]
print(json.dumps(found))
children.server.close()
"""
RUNNING = """
def wait_until_ended():
    for _ in range(100):
        if not started.exists() or not any(map(running, started.read_text().split())):
            return
        time.sleep(0.1)


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


def test_programs_of_a_learner_run_in_one_child(tmp_path):
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
    assert seen["error"] == "ProgramEnded: timed out"
    assert (seen["children"], seen["left"]) == (1, [])


def test_a_program_that_aborts_ends_with_its_child(tmp_path):
    seen = found(tmp_path, function=ABORTS)
    assert seen["error"] == "ProgramEnded: died"
    assert (seen["children"], seen["left"]) == (1, [])


TAKES_MEMORY = """
def does(self, question):
    return f"took {len(bytearray(5 * 2**30))}"
"""


def test_a_child_gets_no_more_memory_than_its_limit(tmp_path):
    assert found(tmp_path, TAKES_MEMORY)["error"] == "ProgramEnded: died"


SPEAKS = """
def does(self, question):
    for number in range(3, 100):
        with contextlib.suppress(OSError):
            data = {data}
            size = struct.pack("!i", len(data)) if len(data) < 2**31 else b""
            while os.write(number, size + data) and {again}:
                pass
    return answer(self, question)
"""


def test_an_answer_that_is_none_of_ours_is_no_answer(tmp_path):
    seen = found(tmp_path, SPEAKS.format(data='b"[1]"', again=False))
    assert seen["first"] == [1]  # which `loads` refuses


def test_a_flood_of_answers_ends_the_child(tmp_path):
    flood = SPEAKS.format(data='b"x" * 2**26', again=True)
    seen = found(tmp_path, flood, wall_s=5)
    assert seen["error"].startswith("ProgramEnded: ") and seen["left"] == []


OPENS_MEMORY = """
def does(self, question):
    import ctypes

    opened = False
    if os.getuid():  # root may open everything
        with contextlib.suppress(PermissionError):
            opened = bool(open(f"/proc/{os.getppid()}/mem", "r+b"))
    inherited = ctypes.CDLL(None).prctl(3)  # PR_GET_DUMPABLE, as of its parents
    return json.dumps({"opened": opened, "dumpable": inherited})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_child_cannot_open_the_memory_of_the_judge(tmp_path):
    seen = found(tmp_path, OPENS_MEMORY)["first"]
    assert seen == {"opened": False, "dumpable": 0}


# What a program that has taken over its child may write.

DID = {
    "collectives": (Collective("all-gather", "", "f32", (3,), 8, True, None),),
    "array_shapes": ((3,), ()),
    "steps": (("func.call", ((3,), ())), ("sdy.all_gather", ())),
    "pairs": ((0, 1), (1, 0)),
    "whole_inputs": ("", "one device"),
}
TRACED = DID | {"dtypes": {"matmul": ("f32",)}, "multiplied": ((3, 4),), "joined": ()}
TRACED |= {"most_held": 7, "needs": (("send", (0, 2)), ("product", (-1, 0)))}
COMPILED = DID | {"flops": 7.0}


def sent(facts):
    return json.loads(json.dumps(encode_facts(facts, {"y": 3}, {})))


@pytest.mark.parametrize("facts", [TRACED, COMPILED], ids=["traced", "compiled"])
def test_facts_are_read_as_they_were_written(facts):
    assert decode_facts(sent(facts)) == {**facts, "value": {"y": 3}, "layout": {}}


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
    ("facts.pairs", [[0, 1, 2]]),
    ("facts.steps", [["func.call", [3]]]),
    ("facts.most_held", -1),
    ("facts.needs", [["send", [-3]]]),
    ("facts.flops", "many"),
    ("facts.flops", 1),
    ("facts.flops", float("nan")),
    ("facts.value", 3),
]


@pytest.mark.parametrize(("name", "value"), FORGED, ids=range(len(FORGED)))
def test_forged_facts_are_refused(name, value):
    forged = sent(COMPILED if "flops" in name else TRACED)
    *outer, last = name.split(".")
    place = forged["facts"] if outer else forged
    place[last] = value
    with pytest.raises(WireError):
        decode_facts(forged)
