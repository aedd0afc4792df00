"""The judge tells right from wrong, keeps its secrets, and gets over its own end."""

import contextlib
import copy
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from coursekit.checks import CheckModule
from coursekit.observation import Opaque
from coursekit.observe import observe
from grader.judging import known_results
from grader.judging.judge import Judge
from grader.judging.judge_process import JudgeError, JudgeProcess, material
from grader.judging.observer import Remote
from grader.kernel.inside.wire import decode, encode, encode_observation
from grader.lessons.release import checks, exercises

IMPORTS = """\
import numpy as np

from coursekit.checks import hidden, visible
from coursekit.expect import expect_close, expect_unchanged
from coursekit.expect_program import expect_devices
from coursekit.learner import double, negate
from coursekit.observe import observe
from coursekit.outcomes import statement
"""
# The second exercise's check wants devices and a traced program.
TRACED = """\
        x = np.arange(16, dtype=np.float32).reshape(8, 2)
        seen = observe(negate, x, traced=True)
        expect_close(seen, -x)
        expect_devices(seen, 8)
"""
CHECKS = IMPORTS + tiny.changed(
    tiny.CHECKS[tiny.CHECKS.index("\n\n@visible") :],
    ("        expect_close(observe(negate, 3), -3)\n", TRACED),
)
NEGATE = CHECKS[CHECKS.index('@visible("negate"') :]
RIGHT = ("PASSED", "")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course", checks=CHECKS)


@pytest.fixture(scope="module")
def judge(lesson):
    with pytest.MonkeyPatch.context() as patch:  # a shell that asks for another JAX
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
        patch.setenv("JAX_NUM_CPU_DEVICES", "2")
        patch.setenv("JAX_ENABLE_X64", "1")
        with contextlib.closing(JudgeProcess(lesson, trusted=True)) as judge:
            yield judge


def with_checks(lesson, source, cases=""):
    """Gives a lesson other checks: visible ones, and hidden cases of `double`."""
    changed = copy.deepcopy(lesson)
    changed.metadata["checks"] = f"{IMPORTS}\n\n{source}\n\n{NEGATE}"
    hidden = "from coursekit.checks import hidden\n"
    checks(changed)[
        "double"
    ].source = f"### BEGIN HIDDEN TESTS\n{hidden}{cases}\n### END HIDDEN TESTS\n"
    return changed


def part(source, mark='visible("double", points=1, essential=["twice"])'):
    """Makes a function of a check's lines."""
    lines = [f"    {line}" for line in source.splitlines()]
    return "\n".join([f"@{mark}", "def part_of_double():", *lines])


def block(source):
    """Puts a check's lines into the block of a statement."""
    lines = [f"    {line}" for line in source.splitlines()]
    return part("\n".join(['with statement("twice"):', *lines]))


@pytest.fixture
def judging(lesson):
    """Starts judges of the lesson with other lines in the check of `double`."""
    with contextlib.ExitStack() as stack:

        def start(source):
            changed = with_checks(lesson, block(source))
            judge = JudgeProcess(changed, trusted=True)
            return stack.enter_context(contextlib.closing(judge))

        yield start


def in_this_process(lesson, ask):
    """Makes a judge without a process around it."""
    return Judge(ask, material(lesson))


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
    python = judge.python
    for _ in range(2):
        assert told(judge, "negate", ask) == RIGHT
        assert told(judge, "double", ask) == RIGHT
    assert judge.python is python  # no other process


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
    [one] = said["statements"]
    assert (one["name"], one["standing"]) == ("twice", "fails")
    assert (one["headline"], one["rows"]) == (said["message"], said["details"])


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
    ("answer", "ended"),
    [
        ({"ended": "timed out"}, "timed out"),
        ({"ended": "died"}, "died"),
        ({"ended": "no answer"}, "died"),
        ({"answer": "several"}, "distrusted"),
        ({"answer": '{"id": "0", "verdict": "PASSED"}'}, "distrusted"),
    ],
    ids="slow dead silent several forged".split(),
)
def test_a_process_without_an_answer_never_passes(judge, answer, ended):
    for exercise in ("double", "negate"):
        said = judge.check(exercise, lambda question: answer)
        assert (said["verdict"], said["ended"]) == ("FAILED", ended)


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
    for answer, ended in (
        ({"ended": "died"}, "died"),
        ({"ended": "timed out"}, "timed out"),
        ({"answer": "several"}, "distrusted"),
    ):
        changed = with_checks(lesson, block(source))
        judge = in_this_process(changed, lambda _, answer=answer: answer)
        said = judge.check("double")
        assert (said["verdict"], said["ended"]) == ("FAILED", ended)


BROKEN = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "raises an error of its own": ("expect_close(observe(double), 6, no=1)", "TypeErr"),
    "misspells a name of ours": ("expect_clos(observe(double, 3), 6)", "NameError: "),
    "calls the function itself": ("double(3)", "TypeError: 'Remote' object"),
    "observes what is not there": ("observe(len, [])", "len is not defined."),
    "speaks of another statement": (
        'with statement("thrice"):\n    pass',
        'ValueError: double does not state "thrice"',
    ),
    "sends what cannot be sent": ("observe(double, {1})", "WireError: "),
    "exits": ("raise SystemExit(0)", "SystemExit: 0"),
    "is interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
}


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_check_that_fails_by_itself_is_broken(lesson, source, message):
    changed = with_checks(lesson, block(source))
    judge = in_this_process(changed, learner(double=double))
    said = judge.check("double")
    assert (said["verdict"], said["share"]) == ("BROKEN", 0)
    assert said["message"].startswith(message)
    assert judge.check("negate")["verdict"] == "NOT_ATTEMPTED"


SILENT = {
    "nothing": "pass",
    "without a block": "expect_close(observe(double, 3), 6)",
    "prints only": "print('double  right  1 of 1 point')",
    "a block that is not left": 'statement("twice").__enter__()',
    "a block behind a return": 'return\nwith statement("twice"):\n    pass',
}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT.keys())
def test_a_check_that_leaves_a_statement_untried_is_broken(lesson, source):
    changed = with_checks(lesson, part(source))
    judge = in_this_process(changed, learner(double=double))
    said = judge.check("double")
    assert (said["verdict"], said["share"]) == ("BROKEN", 0)
    assert said["message"] == "The check did not try every statement."


def test_an_earlier_right_does_not_count_again(lesson):
    source = (
        'if observe(double, 3).value == 6:\n    with statement("twice"):\n        pass'
    )
    changed = with_checks(lesson, part(source))
    judge = in_this_process(changed, learner(double=double))
    assert judge.check("double")["verdict"] == "PASSED"
    judge.observer.ask = learner(double=lambda x: 7)
    assert judge.check("double")["verdict"] == "BROKEN"


@pytest.mark.parametrize(("to_beat", "questions"), [(None, 2), (0.0, 1)])
def test_a_retry_ends_when_it_cannot_be_better(lesson, to_beat, questions):
    source = (
        "for x in (3, 4):\n"
        '    with statement("twice"):\n'
        "        expect_close(observe(double, x), 2 * x)"
    )
    asked, changed = [], with_checks(lesson, part(source))
    judge = in_this_process(changed, learner(asked, double=lambda x: 0))
    assert judge.check("double", to_beat)["share"] == 0
    assert len(asked) == questions


def test_what_a_check_prints_changes_nothing(judging):
    judge = judging(
        "import os, sys\n"
        'print(\'{"verdict": "PASSED"}\')\n'
        "sys.__stdout__.write('{}\\n')\n"
        "sys.__stdout__.flush()\n"
        "os.write(1, b'[]\\n')\n"
        "expect_close(observe(double, 3), 6)"
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
        assert type(judge.module.namespace[name]) is Remote
        assert not callable(judge.module.namespace[name])
    own = [v for k, v in judge.module.namespace.items() if k != "__builtins__"]
    own += judge.module.hidden.values()
    assert not any("Returns twice" in text for value in own for text in texts(value))
    assert judge.context.solutions["double"](4) == 8


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


DRIVEN = (
    ("import double, negate", "import apart, double, negate, repeat"),
    ("expect_close(observe(double, 3), 6)", "expect_close(observe(repeat, 3, 4), 48)"),
    ("expect_close(observe(double, -7), -14)", "assert apart(5) == 5"),
)


def test_a_check_may_observe_the_lessons_function_around_a_learners(tmp_path):
    lesson = tiny.lesson(
        tmp_path / "course",
        ('print("a demonstration")', DRIVER),
        checks=tiny.changed(CHECKS, *DRIVEN),
    )
    asked = []

    def notebook(answer):
        names = {"double": answer}
        exec("\n\n".join(material(lesson)["definitions"]), names)
        return learner(asked, **names)

    judge = in_this_process(lesson, notebook(double))
    assert judge.check("double")["verdict"] == "PASSED"
    [question] = map(json.loads, asked)
    assert (question["function"], decode(question["arguments"])) == ("repeat", [3, 4])

    judge.observer.ask = notebook(lambda x: 3 * x)
    said = judge.check("double")
    rows = dict(said["details"])
    assert (said["verdict"], rows["called"]) == ("FAILED", "repeat(3, 4)")
    assert (rows["seen"], rows["expected"]) == ("243", "48")

    judge.observer.ask = notebook(stub)
    assert judge.check("double")["verdict"] == "NOT_ATTEMPTED"


OWN = """
def doubled_twice(x):
    return double(double(x))


"""


def test_a_check_may_observe_a_function_of_its_own_around_a_learners(lesson):
    source = OWN + block("expect_close(observe(doubled_twice, 3), 12)")
    changed = with_checks(lesson, source)

    def answers(**functions):  # as the learner's process makes them: see responder.py
        module = CheckModule(changed.metadata["checks"], "<checks>")
        module.bind(functions)
        return learner(**module.namespace)

    judge = in_this_process(changed, answers(double=double))
    assert judge.check("double")["verdict"] == "PASSED"
    judge.observer.ask = answers(double=lambda x: x + 1)
    rows = dict(judge.check("double")["details"])
    assert (rows["called"], rows["seen"]) == ("doubled_twice(3)", "5")
    for answer, outcome in ((stub, "NOT_ATTEMPTED"), (fails, "RAISED")):
        judge.observer.ask = answers(double=answer)
        assert judge.check("double")["verdict"] == outcome


def test_no_hidden_test_is_told_to_the_learner(judge):
    asked = []
    ask = learner(asked, double=double, negate=negate)
    for exercise in ("double", "negate"):
        assert told(judge, exercise, ask) == RIGHT
    questions = [json.loads(question) for question in asked]
    arguments = [decode(question["arguments"]) for question in questions[:2]]
    assert arguments == [[3], [-7]]  # inputs alone, hidden ones too
    keys = {"ask", "function", "arguments", "axis", "id", "clean"}
    assert all(question.keys() == keys for question in questions)
    for word in ("expect", "check", "hidden", "-14", "secret", "twice", "points"):
        assert word not in "".join(asked)


# Credit for the statements that hold.

STATED = """visible(
    "double",
    points=4,
    essential=["of a number", "of a negative number"],
    others=["of an array", "the caller's array stays", "of nothing"],
)"""
EXAMPLES = """\
with statement("of a number"):
    expect_close(observe(double, 3), 6)
seen = observe(double, np.float32([1, 2]))
with statement("of an array"):
    expect_close(seen, np.float32([2, 4]))
with statement("the caller's array stays"):
    expect_unchanged(seen)"""
CASES = """\
with statement("of a negative number"):
    expect_close(observe(double, -7), -14)
with statement("of an array"):
    expect_close(observe(double, np.float32([[5]])), np.float32([[10]]))
with statement("of nothing"):
    expect_close(observe(double, np.zeros(0, np.float32)), np.zeros(0, np.float32))"""


@pytest.fixture
def stated(lesson):
    """A lesson whose first exercise has five statements; see `standings`."""
    hidden = part(CASES, 'hidden("double")')
    return with_checks(lesson, part(EXAMPLES, STATED), hidden)


def standings(said):
    return [one["standing"] for one in said["statements"]]


def in_place(x):
    x *= 2
    return x


def not_of_nothing(x):
    return np.float32([1]) if np.size(x) == 0 else 2 * x


def first_of_an_array(x):
    return 2 * x if np.ndim(x) == 0 else 2 * np.asarray(x)[:1]


def neither_of_arrays(x):
    return 2 * x if np.ndim(x) == 0 else None


PARTS = {
    "all": (double, "PASSED", 1, "holds holds holds holds holds"),
    "no row of nothing": (
        not_of_nothing,
        "PARTLY",
        5 / 6,
        "holds holds holds holds fails",
    ),
    "in place": (in_place, "PARTLY", 5 / 6, "holds holds holds fails holds"),
    "of no array": (
        neither_of_arrays,
        "PARTLY",
        4 / 6,
        "holds holds fails holds fails",
    ),
}


@pytest.mark.parametrize("case", PARTS.values(), ids=PARTS.keys())
def test_credit_is_given_for_the_statements_that_hold(stated, case):
    function, outcome, share, wanted = case
    said = in_this_process(stated, learner(double=function)).check("double")
    assert (said["verdict"], standings(said)) == (outcome, wanted.split())
    assert said["share"] == pytest.approx(share)
    names = [one["name"] for one in said["statements"]]
    assert names[:3] == ["of a number", "of a negative number", "of an array"]
    worth = [one["share"] for one in said["statements"]]
    assert worth == [0, 0, *[pytest.approx(1 / 6)] * 3]
    assert [one["is_essential"] for one in said["statements"]] == [1, 1, 0, 0, 0]


def test_what_stands_of_each_statement_is_told_with_what_was_seen(stated):
    ask = learner(double=neither_of_arrays)
    said = in_this_process(stated, ask).check("double")
    _, _, array, _, nothing = said["statements"]
    assert array["headline"] == said["message"] != ""
    assert dict(array["rows"]) == dict(said["details"])
    assert array["headline"].startswith("The function returned None")
    assert dict(array["rows"])["called"] == "double(f32[2])"
    assert dict(nothing["rows"])["called"] == "double(f32[0])"


def called(asked):
    """Lists the shapes and numbers of the arguments that were asked about."""
    values = [decode(json.loads(question)["arguments"])[0] for question in asked]
    return [np.shape(value) or value for value in values]


@pytest.mark.parametrize(
    ("function", "calls", "wanted"),
    [
        # In the examples: these go on, and no hidden case is tried.
        (lambda x: abs(x) * 3, [3, (2,)], "fails untried fails holds untried"),
        (lambda x: 3, [3, (2,)], "fails untried fails holds untried"),
        # In a hidden case: it is the last.
        (lambda x: abs(x) * 2, [3, (2,), -7], "holds fails holds holds untried"),
    ],
    ids=["example", "constant", "hidden case"],
)
def test_an_essential_failure_ends_the_hidden_cases(stated, function, calls, wanted):
    asked = []
    judge = in_this_process(stated, learner(asked, double=function))
    said = judge.check("double")
    assert (said["verdict"], said["share"]) == ("FAILED", 0)
    assert called(asked) == calls
    assert standings(said) == wanted.split()
    [*_, nothing] = said["statements"]
    assert "essential" in nothing["headline"]


@pytest.mark.parametrize("ended", ["died", "timed out"])
@pytest.mark.parametrize("place", range(5))
def test_a_process_that_ends_in_the_middle_costs_the_exercise(stated, ended, place):
    honest, asked = learner(double=double), []

    def ask(question):
        asked.append(question)
        return honest(question) if len(asked) <= place else {"ended": ended}

    said = in_this_process(stated, ask).check("double")
    assert (said["verdict"], said["share"]) == ("FAILED", 0)
    assert (said["statements"], said["ended"]) == ([], ended)
    assert len(asked) == place + 1  # nothing more is asked


def test_what_stumbles_over_a_failure_is_untried_and_not_broken(lesson):
    source = """\
with statement("of a number"):
    expect_close(observe(double, 3), 6)
with statement("of a negative number"):
    expect_close(observe(double, -3), -6)
with statement("of an array"):
    assert observe(double, np.float32([1])).value.sum() == 2
with statement("the caller's array stays"):
    expect_unchanged(observe(double, np.float32([1])))
observe(double, 3).value["no such entry"]
with statement("of nothing"):
    expect_close(observe(double, np.zeros(0, np.float32)), np.zeros(0, np.float32))"""
    changed = with_checks(lesson, part(source, STATED))
    said = in_this_process(changed, learner(double=lambda x: None)).check("double")
    assert (said["verdict"], said["share"]) == ("FAILED", 0)
    assert standings(said) == "fails fails untried holds untried".split()
    judge = in_this_process(changed, learner(double=double))
    assert judge.check("double")["verdict"] == "BROKEN"  # here nothing has failed


@pytest.fixture
def all_or_nothing(stated):
    setup = next(cell for cell in stated.cells if cell.id == "setup")
    setup.source = tiny.changed(
        setup.source, ("lesson=", "partial_credit=False, lesson=")
    )
    return stated


def test_a_class_may_give_all_points_or_none(all_or_nothing):
    judge = in_this_process(all_or_nothing, learner(double=in_place))
    said = judge.check("double")
    assert (said["verdict"], said["share"]) == ("FAILED", 0)
    assert all(one["is_essential"] for one in said["statements"])
    judge.observer.ask = learner(double=double)
    assert judge.check("double")["share"] == 1


def endless(x):
    return jax.lax.while_loop(lambda y: True, lambda y: y + 1, x)


def endless_program():
    """Claims right values; its program never ends."""
    honest, program = learner(negate=negate), learner(negate=endless)
    return lambda asked: (program if asked["ask"] == "program" else honest)(asked)


@pytest.fixture(scope="module")
def contained(lesson, contained_here):
    with contextlib.closing(JudgeProcess(lesson)) as judge:
        yield judge


@pytest.fixture(params=["trusted", "contained"])
def any_judge(request):
    kinds = {"trusted": "judge", "contained": "contained"}
    return request.getfixturevalue(kinds[request.param])


def test_a_judge_outlives_an_endless_program(any_judge, monkeypatch):
    assert told(any_judge, "negate", learner(negate=negate)) == RIGHT
    python = any_judge.python
    monkeypatch.setattr(any_judge, "wall_s", 1.5)
    said = any_judge.check("negate", endless_program())
    assert (said["verdict"], said["ended"]) == ("FAILED", "program timed out")
    monkeypatch.undo()
    assert told(any_judge, "negate", learner(negate=negate)) == RIGHT
    assert any_judge.python is python


def test_a_judge_outlives_a_program_that_aborts(any_judge):
    def aborts(x):  # more elements than XLA can count
        return -x + jax.lax.iota(np.float32, 2**62)[0]

    honest, program = learner(negate=negate), learner(negate=aborts)
    assert told(any_judge, "negate", honest) == RIGHT
    python = any_judge.python
    said = any_judge.check(
        "negate", lambda q: (program if q["ask"] == "program" else honest)(q)
    )
    assert (said["verdict"], said["ended"]) == ("FAILED", "program died")
    any_judge.begin_submission()
    assert told(any_judge, "negate", honest) == RIGHT
    assert any_judge.python is python


def test_a_judge_that_was_killed_is_our_fault_and_started_again(judge):
    ask = learner(double=double)
    assert told(judge, "double", ask) == RIGHT
    judge.python.process.kill()
    with pytest.raises(JudgeError):
        judge.check("double", ask)
    assert told(judge, "double", ask) == RIGHT


def test_a_judge_that_is_killed_while_it_asks_is_our_fault(judge):
    def killing(question):
        judge.python.process.kill()
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
        assert judge.python is None


def test_closing_twice_or_before_the_start_does_no_harm(lesson):
    judge = JudgeProcess(lesson, trusted=True)
    judge.close()
    judge.close()
    assert judge.python is None


LIKE_SOLUTION = """\
from coursekit.hidden_cases import Case
from coursekit.reference_checks import expect_like_solution
names = "error layout collectives sent arrays compiles arguments"
free = {name: "left open here" for name in names.split()}
cases = lambda rng: [Case(rng.normal(size=4)), Case(rng.normal(size=6))]
expect_like_solution(double, cases, value="twice", free=free, scales=())
"""


@pytest.fixture
def judged(tmp_path):
    """Runs the check of `double` in a judge of its own, whose file it takes."""
    made = tiny.lesson(tmp_path / "course", checks=CHECKS)
    lesson = with_checks(made, block(LIKE_SOLUTION))

    def run(file):
        with contextlib.closing(
            JudgeProcess(lesson, trusted=True, known=file)
        ) as judge:
            found = told(judge, "double", learner(double=double))
            judge.keep_known()
            return found

    return run


def changed(known):
    return {
        key: dataclasses.replace(seen, value=np.zeros(6))
        if key[0] == "double"
        else seen
        for key, seen in known.items()
    }


def test_what_one_judge_knew_of_solutions_the_next_one_believes(judged, tmp_path):
    file = tmp_path / "known" / "of-this-class"
    assert judged(file) == RIGHT
    kept = file.read_text()
    known = known_results.decode(kept)
    assert [key[0] for key in known].count("double") >= 2
    assert judged(file) == RIGHT and file.read_text() == kept
    file.write_text(known_results.encode(changed(known)))
    assert judged(file) != RIGHT


@pytest.mark.parametrize("text", ["", "half a fi", "AAAA"])
def test_a_damaged_file_is_written_anew(judged, tmp_path, text):
    file = tmp_path / "known"
    file.write_text(text)
    assert judged(file) == RIGHT
    assert known_results.decode(file.read_text())
    assert file.stat().st_mode & 0o777 == 0o600


HASHES = {"lesson": "a", "packages": "b", "seed": "c", "grader": "d"}


@pytest.mark.parametrize("name", HASHES)
def test_another_lesson_or_class_has_a_file_of_its_own(name):
    assert known_results.find(HASHES) != known_results.find(HASHES | {name: "x"})
