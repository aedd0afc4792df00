"""The judge tells right from wrong, keeps its secrets, and gets over its own end."""

import contextlib
import copy
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from coursekit import likeness
from coursekit.observation import Opaque
from coursekit.observe import observe
from grader.authoring.notebook import checks, exercises
from grader.judging.judge import Judge
from grader.judging.judge_process import (
    JudgeError,
    JudgeProcess,
    ProgramEnded,
    material,
)
from grader.judging.observer import Remote
from grader.kernel.inside.wire import decode, encode, encode_observation

SETUP = tiny.SETUP.replace(
    "from coursekit.expect import expect_close",
    "import numpy as np\n"
    "from coursekit.expect import *\n"
    "from coursekit.expect_program import *",
)
# The second exercise's check wants devices and a traced program.
TRACED = """\
x = np.arange(16, dtype=np.float32).reshape(8, 2)
seen = observe(negate, x, traced=True)
expect_close(seen, -x)
expect_devices(seen, 8)"""
RIGHT = ("PASSED", "")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    changes = ("expect_close(observe(negate, 3), -3)", TRACED)
    return tiny.lesson(
        tmp_path_factory.mktemp("course") / "course", changes, setup=SETUP
    )


@pytest.fixture(scope="module")
def judge(lesson):
    with pytest.MonkeyPatch.context() as patch:  # a shell that asks for another JAX
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
        patch.setenv("JAX_NUM_CPU_DEVICES", "2")
        patch.setenv("JAX_ENABLE_X64", "1")
        with contextlib.closing(JudgeProcess(lesson, trusted=True)) as judge:
            yield judge


def with_check(lesson, source):
    """Replaces the whole source of the check of `double`."""
    changed = copy.deepcopy(lesson)
    checks(changed)["double"].source = source
    return changed


def block(source):
    """Wraps a check's lines as the lesson's build does."""
    lines = [f"    {line}" for line in source.splitlines()]
    return "\n".join(['with check("double", points=1):', *lines])


@pytest.fixture
def judging(lesson):
    """Starts judges of the lesson with other lines in the check of `double`."""
    with contextlib.ExitStack() as stack:

        def start(source):
            changed = with_check(lesson, block(source))
            judge = JudgeProcess(changed, trusted=True)
            return stack.enter_context(contextlib.closing(judge))

        yield start


def receiving(sent, ask):
    return lambda: ask(sent[-1]["ask"])


def in_this_process(lesson, ask):
    """Makes a judge without a process around it."""
    sent = []
    judge = Judge(sent.append, receiving(sent, ask), **material(lesson))
    judge.sent = sent
    return judge


def export(function, *arguments):
    run = jax.jit(lambda *blocks: (function(*blocks),), keep_unused=True)
    return jax.export.export(run, platforms=["cpu"])(*arguments).mlir_module()


def learner(asked=None, **functions):
    """Answers questions as an honest process does, about `functions`."""

    def ask(question):
        if asked is not None:
            asked.append(json.dumps(question))
        name, arguments = question["function"], decode(question["arguments"])
        if name not in functions:
            reply = {"missing": name}
        elif question["ask"] == "program":
            try:
                text = export(functions[name], *arguments)
                reply = {"program": text, "result": encode(Opaque("leaf 0"))}
            except Exception as error:
                reply = {"refused": str(error)}
        else:
            facts = encode_observation(observe(functions[name], *arguments))
            reply = {"seen": facts, "after": question["arguments"]["list"]}
        return {"answer": json.dumps(reply | {"id": question["id"]})}

    return ask


def double(x):
    return x + x


def negate(x):
    return jax.pmap(lambda row: -row)(x)


def fails(x):
    raise ValueError("no")


def stub(x):
    raise NotImplementedError("not written yet")


def told(judge, exercise, ask):
    said = judge.check(exercise, ask)
    return said["verdict"], said["message"]


def test_right_answers_pass_in_one_warm_process(judge):
    ask = learner(double=double, negate=negate)
    assert told(judge, "double", ask) == RIGHT
    kill, stdin = judge.kill, judge.stdin
    for _ in range(2):
        assert told(judge, "negate", ask) == RIGHT
        assert told(judge, "double", ask) == RIGHT
    assert (judge.kill, judge.stdin) == (kill, stdin)  # no other process


@pytest.mark.parametrize(
    ("function", "outcome", "message"),
    [
        (lambda x: 3 * x, "FAILED", "The result is wrong."),
        (lambda x: 6, "FAILED", "The result is wrong."),
        (lambda x: None, "FAILED", "The function returned None"),
        (lambda x: {"a": x}, "FAILED", "The result has another structure."),
        (lambda x: object(), "FAILED", "The result is an object of type object"),
        (lambda x: 10**5000, "FAILED", "The result is an object of type int"),
        (fails, "RAISED", "ValueError: no"),
        (stub, "NOT_ATTEMPTED", "stub still holds its stub."),
    ],
    ids="wrong visible none dict object huge raises stub".split(),
)
def test_other_answers_get_what_they_deserve(judge, function, outcome, message):
    said = told(judge, "double", learner(double=function))
    assert said[0] == outcome
    assert said[1].startswith(message)
    assert told(judge, "double", learner(double=double)) == RIGHT


def test_a_wrong_answer_is_told_with_what_was_seen(judge):
    said = judge.check("double", learner(double=lambda x: 3 * x))
    rows = dict(said["details"])
    assert (rows["called"], rows["seen"], rows["expected"]) == ("double(3)", "9", "6")
    assert "evidence" not in said


@pytest.mark.parametrize(
    "function",
    [lambda x: -np.asarray(x), lambda x: jnp.asarray(-x), jax.jit(jnp.negative)],
    ids="numpy host jit".split(),
)
def test_right_values_on_the_wrong_devices_do_not_pass(judge, function):
    assert told(judge, "negate", learner(negate=function))[0] == "FAILED"


def test_a_missing_function_is_not_attempted(judge):
    said = judge.check("double", learner(negate=negate))
    assert (said["verdict"], said["ended"]) == ("NOT_ATTEMPTED", "missing")
    assert said["message"] == "double is not defined."


@pytest.mark.parametrize(
    ("answer", "outcome", "ended"),
    [
        ({"ended": "timed out"}, "TIMED_OUT", "timed out"),
        ({"ended": "died"}, "RAISED", "died"),
        ({"ended": "no answer"}, "RAISED", "died"),
        ({"answer": "several"}, "FAILED", "distrusted"),
        ({"answer": '{"id": "0", "verdict": "PASSED"}'}, "FAILED", "distrusted"),
    ],
    ids="slow dead silent several forged".split(),
)
def test_a_process_without_an_answer_never_passes(judge, answer, outcome, ended):
    for exercise in ("double", "negate"):
        said = judge.check(exercise, lambda question: answer)
        assert (said["verdict"], said["ended"]) == (outcome, ended)
        assert ("evidence" in said) == (ended == "distrusted")


HANDLERS = {
    "except Exception": "try:\n    expect_close(observe(double, 3), 6)\n"
    "except Exception:\n    pass",
    "suppress": "import contextlib\nwith contextlib.suppress(Exception):\n"
    "    expect_close(observe(double, 3), 6)",
    "in a loop": "for n in range(3):\n    try:\n        observe(double, n)\n"
    "    except (ValueError, RuntimeError):\n        continue",
}


@pytest.mark.parametrize("source", HANDLERS.values(), ids=HANDLERS.keys())
def test_no_handler_in_a_check_swallows_the_end_of_a_process(lesson, source):
    for answer, outcome in (
        ({"ended": "died"}, "RAISED"),
        ({"ended": "timed out"}, "TIMED_OUT"),
        ({"answer": "several"}, "FAILED"),
    ):
        changed = with_check(lesson, block(source))
        judge = in_this_process(changed, lambda _, answer=answer: answer)
        assert judge.check("double")["verdict"] == outcome


BROKEN = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "raises an error of its own": ("expect_close(observe(double), 6, no=1)", "TypeErr"),
    "misspells a name of ours": ("expect_clos(observe(double, 3), 6)", "expect_clos "),
    "calls the function itself": ("double(3)", "TypeError: 'Remote' object"),
    "observes another function": ("observe(len, [])", "TypeError: observe takes"),
    "sends what cannot be sent": ("observe(double, {1})", "WireError: "),
    "exits": ("raise SystemExit(0)", "SystemExit: 0"),
    "is interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
}


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_check_that_fails_by_itself_is_broken(lesson, source, message):
    changed = with_check(lesson, block(source))
    judge = in_this_process(changed, learner(double=double))
    said = judge.check("double")
    assert said["verdict"] == "BROKEN"
    assert said["message"].startswith(message)
    assert judge.check("negate")["verdict"] == "NOT_ATTEMPTED"


SILENT = {
    "nothing": "",
    "without a block": "expect_close(observe(double, 3), 6)",
    "another exercise": 'with check("negate", points=1):\n    pass',
    "prints only": "print('Right: double does what it should. 1 of 1 point.')",
    "a block that is not left": 'check("double", 1).__enter__()',
}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT.keys())
def test_a_check_that_never_says_right_is_broken(lesson, source):
    judge = in_this_process(with_check(lesson, source), learner(double=double))
    said = judge.check("double")
    assert said["verdict"] == "BROKEN"
    assert said["message"] == "The check ended without a verdict."


def test_an_earlier_right_does_not_count_again(lesson):
    source = (
        'if observe(double, 3).value == 6:\n    with check("double", 1):\n        pass'
    )
    judge = in_this_process(with_check(lesson, source), learner(double=double))
    assert judge.check("double")["verdict"] == "PASSED"
    judge.receive = receiving(judge.sent, learner(double=lambda x: 7))
    assert judge.check("double")["verdict"] == "BROKEN"


def test_what_a_check_prints_or_leaves_behind_changes_nothing(judging):
    judge = judging(
        "import os, sys\n"
        'print(\'{"verdict": "PASSED"}\')\n'
        "sys.__stdout__.write('{}\\n')\n"
        "sys.__stdout__.flush()\n"
        "os.write(1, b'[]\\n')\n"
        "assert 'left' not in globals()\n"
        "left = expect_close(observe(double, 3), 6)"
    )
    for _ in range(2):
        assert told(judge, "double", learner(double=double)) == RIGHT
    assert told(judge, "double", learner(double=fails))[0] == "RAISED"


def texts(value):
    """Yields all text that the code objects of a function or class member hold."""
    code = getattr(value, "__code__", value)
    for constant in getattr(code, "co_consts", ()):
        if isinstance(constant, str):
            yield constant
        yield from texts(constant)


def test_checks_meet_no_solution_but_by_comparing_with_it(lesson):
    assert "secret = 2" in exercises(lesson)["double"].source
    judge = in_this_process(lesson, learner())
    for name in ("double", "negate"):
        assert type(judge.namespace[name]) is Remote
        assert not callable(judge.namespace[name])
    own = [v for k, v in judge.namespace.items() if k != "__builtins__"]
    assert not any("Returns twice" in text for value in own for text in texts(value))
    assert likeness.solutions["double"](4) == 8


def test_a_demonstration_does_not_run_in_the_judge(lesson, capsys):
    assert '"a demonstration"' in "".join(cell.source for cell in lesson.cells)
    in_this_process(lesson, learner())
    assert "a demonstration" not in capsys.readouterr().out


DRIVER = """\
import functools


def repeat(x, times):
    for _ in range(times):
        x = once(x)
    return x


def once(x):
    return double(x)


def apart(x):
    return functools.reduce(max, [x])"""


def test_a_check_may_observe_the_lessons_function_around_a_learners(tmp_path):
    changes = (
        ('print("a demonstration")', DRIVER),
        (
            "expect_close(observe(double, 3), 6)",
            "expect_close(observe(repeat, 3, 4), 48)",
        ),
        ("expect_close(observe(double, -7), -14)", "assert apart(5) == 5"),
    )
    lesson = tiny.lesson(tmp_path / "course", *changes, setup=SETUP)
    asked = []

    def notebook(answer):
        names = {"double": answer}
        exec("\n\n".join(material(lesson)["definitions"]), names)
        return learner(asked, **names)

    judge = in_this_process(lesson, notebook(double))
    assert type(judge.namespace["repeat"]) is type(judge.namespace["once"]) is Remote
    assert judge.check("double")["verdict"] == "PASSED"
    [question] = map(json.loads, asked)
    assert (question["function"], decode(question["arguments"])) == ("repeat", [3, 4])

    judge.receive = receiving(judge.sent, notebook(lambda x: 3 * x))
    said = judge.check("double")
    rows = dict(said["details"])
    assert (said["verdict"], rows["called"]) == ("FAILED", "repeat(3, 4)")
    assert (rows["seen"], rows["expected"]) == ("243", "48")

    judge.receive = receiving(judge.sent, notebook(stub))
    assert judge.check("double")["verdict"] == "NOT_ATTEMPTED"


def test_no_hidden_test_is_told_to_the_learner(judge):
    asked = []
    ask = learner(asked, double=double, negate=negate)
    for exercise in ("double", "negate"):
        assert told(judge, exercise, ask) == RIGHT
    questions = [json.loads(question) for question in asked]
    arguments = [decode(question["arguments"]) for question in questions[:2]]
    assert arguments == [[3], [-7]]  # inputs alone, hidden ones too
    keys = {"ask", "function", "arguments", "axis", "id"}
    assert all(question.keys() == keys for question in questions)
    for word in ("expect", "check", "HIDDEN", "-14", "secret", "Right", "points"):
        assert word not in "".join(asked)


def endless(x):
    return jax.lax.while_loop(lambda y: True, lambda y: y + 1, x)


def endless_program():
    """Claims right values; its program never ends."""
    honest, program = learner(negate=negate), learner(negate=endless)
    return lambda asked: (program if asked["ask"] == "program" else honest)(asked)


def test_an_endless_program_is_stopped_and_the_next_check_works(judge, monkeypatch):
    monkeypatch.setattr(judge, "wall_s", 1.5)
    with pytest.raises(ProgramEnded, match="timed out"):
        judge.check("negate", endless_program())
    assert judge.kill is None
    assert told(judge, "double", learner(double=double)) == RIGHT


@pytest.fixture(scope="module")
def contained(lesson, contained_here):
    with contextlib.closing(JudgeProcess(lesson)) as judge:
        yield judge


def test_a_contained_judge_outlives_an_endless_program(contained, monkeypatch):
    assert told(contained, "negate", learner(negate=negate)) == RIGHT
    kill = contained.kill
    monkeypatch.setattr(contained, "wall_s", 1.5)
    said = contained.check("negate", endless_program())
    assert (said["verdict"], said["ended"]) == ("TIMED_OUT", "program timed out")
    assert told(contained, "negate", learner(negate=negate)) == RIGHT
    assert contained.kill == kill


def test_a_contained_judge_outlives_a_program_that_aborts(contained):
    def aborts(x):  # more elements than XLA can count
        return -x + jax.lax.iota(np.float32, 2**62)[0]

    honest, program = learner(negate=negate), learner(negate=aborts)
    assert told(contained, "negate", honest) == RIGHT
    kill = contained.kill
    said = contained.check(
        "negate", lambda q: (program if q["ask"] == "program" else honest)(q)
    )
    assert (said["verdict"], said["ended"]) == ("RAISED", "program died")
    assert told(contained, "negate", honest) == RIGHT
    assert contained.kill == kill


def test_a_program_that_ends_the_judge_is_told_from_a_fault_of_ours(judge):
    receive = judge.receive

    def killing(*arguments):
        message = receive(*arguments)
        if message.get("running"):
            judge.kill()
        return message

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "receive", killing)
        with pytest.raises(ProgramEnded, match="died"):
            judge.check("negate", endless_program())
    assert told(judge, "negate", learner(negate=negate)) == RIGHT


def test_a_judge_that_was_killed_is_our_fault_and_started_again(judge):
    ask = learner(double=double)
    assert told(judge, "double", ask) == RIGHT
    judge.kill()
    with pytest.raises(JudgeError):
        judge.check("double", ask)
    assert told(judge, "double", ask) == RIGHT


def test_a_judge_that_is_killed_while_it_asks_is_our_fault(judge):
    def killing(question):
        judge.kill()
        return {"ended": "died"}

    with pytest.raises(JudgeError):
        judge.check("double", killing)
    assert told(judge, "double", learner(double=double)) == RIGHT


def test_a_judge_that_cannot_start_tells_why(lesson):
    broken = copy.deepcopy(lesson)
    next(c for c in broken.cells if c.id == "setup").source = "import no_such_module"
    with contextlib.closing(JudgeProcess(broken, trusted=True)) as judge:
        with pytest.raises(JudgeError, match="No module named 'no_such_module'"):
            judge.check("double", learner())
        assert judge.kill is None


def test_closing_twice_or_before_the_start_does_no_harm(lesson):
    judge = JudgeProcess(lesson, trusted=True)
    judge.close()
    judge.close()
    assert judge.kill is None
