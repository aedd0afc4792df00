"""A submission gets the points of its right answers, whatever else it does."""

import contextlib
import copy

import nbformat
import pytest
import tiny

from grader.containment.backend import backend
from grader.containment.limits import ContainmentError, Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.kernel.learner_box import fork_server
from grader.lessons.release import dumps, exercises, release
from grader.results import Outcome, Status, from_json, to_json
from grader.submissions.read_submission import parse_submission

DOUBLE = "def double(x):\n    return x + x\n"
NEGATE = "def negate(x):\n    return 0 - x\n"
EXIT = "import os\n\n\ndef {}(x):\n    os._exit(0)"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture(scope="module")
def trusted():
    """Whether nothing here contains a learner's code; then no process is forked."""
    try:
        return backend() != "bubblewrap"
    except ContainmentError:
        return True


@pytest.fixture(scope="module")
def judge(lesson, trusted):
    if not trusted:
        fork_server(start=True)
    with contextlib.closing(JudgeProcess(lesson, trusted=trusted)) as judge:
        yield judge


@pytest.fixture
def grade(lesson, judge, trusted):
    """Grades a notebook; returns the result and its exercises by name."""

    def run(submitted, wall_s=30, **options):
        intake = parse_submission(dumps(submitted).encode())
        limits = Limits(wall_s=wall_s)
        result = grade_submission(
            intake, lesson, "01_tiny", judge, limits, trusted=trusted, **options
        )
        return result, {r.exercise: r for r in result.exercises}

    return run


def submission(lesson, **answers):
    notebook = release(lesson)
    for name, source in answers.items():
        exercises(notebook)[name].source = source
    return notebook


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def extra_cells(notebook, *sources, before="double"):
    place = [cell.id for cell in notebook.cells].index(before)
    notebook.cells[place:place] = map(nbformat.v4.new_code_cell, sources)
    return notebook


def test_solved_lesson_gets_full_points_and_reports_each_exercise(lesson, grade):
    told = []
    result, found = grade(lesson, on_exercise=lambda: told.append(1))
    assert (result.lesson, result.points, result.max_points) == ("01_tiny", 3, 3)
    assert result.status is Status.GRADED
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}
    assert len(told) == 2


def test_untouched_lesson_gets_nothing(lesson, grade):
    result, found = grade(release(lesson))
    assert (result.points, result.score, result.max_points) == (0, 0, 3)
    assert {r.outcome for r in found.values()} == {Outcome.NOT_ATTEMPTED}
    assert found["double"].message == "double still holds its stub."


@pytest.mark.parametrize(
    "source, outcome, message",
    [
        pytest.param(
            "def double(x):\n    return 6",
            Outcome.FAILED,
            "The result is wrong.",
            id="visible inputs",
        ),
        pytest.param(
            "def double(x:\n", Outcome.RAISED, "SyntaxError: ", id="syntax error"
        ),
        pytest.param(
            "import sys\n\n\ndef double(x):\n    sys.exit(1)",
            Outcome.RAISED,
            "SystemExit: 1",
            id="exit",
        ),
        pytest.param(
            EXIT.format("double"), Outcome.RAISED, "It ended the process", id="_exit"
        ),
        pytest.param(
            "import os\nos._exit(0)", Outcome.RAISED, "It ended", id="_exit in cell"
        ),
        pytest.param("1 / 0", Outcome.RAISED, "ZeroDivisionError: ", id="cell raises"),
        pytest.param("", Outcome.NOT_ATTEMPTED, "double is not defined", id="empty"),
    ],
)
def test_only_the_faulty_exercise_is_lost(lesson, grade, source, outcome, message):
    result, found = grade(submission(lesson, double=source, negate=NEGATE))
    assert (found["double"].outcome, found["double"].points) == (outcome, 0)
    assert found["double"].message.startswith(message)
    assert (found["negate"].outcome, found["negate"].points) == (Outcome.PASSED, 2)
    assert result.status is Status.GRADED


@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    while True:\n        pass",
        "while True:\n    pass",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "def double(x):\n    while True:\n        pass",
    ],
    ids=["in the function", "in the cell", "ignores interrupts"],
)
def test_endless_loop_costs_that_exercise_only(lesson, grade, source):
    submitted = submission(lesson, double=source, negate=NEGATE)
    _, found = grade(submitted, wall_s=2)
    assert found["double"].outcome is Outcome.TIMED_OUT
    assert found["double"].points == 0
    assert "after 2 s: is there a loop without an end?" in found["double"].message
    assert found["negate"].outcome is Outcome.PASSED


@pytest.mark.parametrize("limit", ["total_s", "total_cpu_s"])
def test_what_a_submission_has_no_time_left_for_is_said(lesson, judge, limit):
    intake = parse_submission(dumps(submission(lesson, double=DOUBLE)).encode())
    limits = Limits(wall_s=30, **{limit: -1})
    result = grade_submission(intake, lesson, "01_tiny", judge, limits, trusted=True)
    first, second = result.exercises
    assert (first.outcome, first.points) == (Outcome.TIMED_OUT, 0)
    assert first.message.startswith("Not finished: the submission took more than")
    assert second.outcome is Outcome.NOT_ATTEMPTED
    assert result.limits == ("time of the whole submission",)


def test_a_helper_survives_cells_that_never_end(lesson, grade):
    submitted = submission(
        lesson,
        double="def double(x):\n    return twice(x)",
        negate="def negate(x):\n    return less(x)",
    )
    helper = "def twice(x):\n    return x + x\n\n\nwhile True:\n    pass"
    other = "def less(x):\n    return -x\n\n\nwhile True:\n    pass"
    extra_cells(submitted, helper, other)
    _, found = grade(submitted, wall_s=2)
    assert {one.outcome for one in found.values()} == {Outcome.PASSED}


@pytest.mark.parametrize(
    "addition",
    [
        "TWO = 2\ntwice = lambda x: TWO * x",
        "import functools\n\ntwice = functools.partial(int.__mul__, 2)",
        "if True:\n    TWO = 2\n\ndef twice(x):\n    return TWO * x",
        "%matplotlib inline\ndef twice(x):\n    return x + x",
        "print(not_defined)\ntwice = lambda x: x + x",
    ],
    ids="lambda partial if magic after-a-name-that-is-missing".split(),
)
def test_what_is_added_to_a_cell_of_the_lesson_is_used_and_noted(
    lesson, grade, addition
):
    submitted = submission(lesson, double="def double(x):\n    return twice(x)")
    demonstration = next(c for c in submitted.cells if "a demonstration" in c.source)
    changed = demonstration if "lambda" in addition else cell_of(submitted, "setup")
    changed.source += f"\n\n\n{addition}"
    result, found = grade(submitted)
    assert found["double"].outcome is Outcome.PASSED
    assert result.status is Status.GRADED_WITH_NOTE
    assert any("Changed cells of the lesson: " in note for note in result.notes)


@pytest.mark.parametrize("exercise", ["double", "negate"])
def test_what_is_defined_in_a_checks_cell_is_used(lesson, grade, exercise):
    source = "def {}(x):\n    return FACTOR * x"
    factor = {"double": 2, "negate": -1}[exercise]
    submitted = submission(lesson, **{exercise: source.format(exercise)})
    cell_of(submitted, "check-double").source += f"\nFACTOR = {factor}"
    result, found = grade(submitted)
    assert found[exercise].outcome is Outcome.PASSED
    assert result.status is Status.GRADED


def test_a_check_that_fails_by_itself_costs_no_other_exercise(trusted, tmp_path):
    own = "        expect_close(observe(double, 3), 6)\n"
    checks = tiny.changed(tiny.CHECKS, (own, f"{own}        (1, 2)[2]\n"))
    lesson = tiny.lesson(tmp_path / "course", checks=checks)
    submitted = parse_submission(
        dumps(submission(lesson, double=DOUBLE, negate=NEGATE)).encode()
    )
    with contextlib.closing(JudgeProcess(lesson, trusted=trusted)) as judge:
        result = grade_submission(
            submitted, lesson, "01_tiny", judge, Limits(), trusted=trusted
        )
    double, negate = result.exercises
    assert (double.outcome, negate.outcome) == (Outcome.BROKEN, Outcome.PASSED)
    assert double.message == "IndexError: tuple index out of range"
    assert result.status is Status.GRADED
    assert result.score == negate.max_points


def test_playing_with_a_demonstration_costs_nothing(trusted, tmp_path):
    """What breaks an answer is left out when it is tried again."""
    helper = "def twice(x):\n    return x + x"
    demonstration = ('print("a demonstration")', helper)
    lesson = tiny.lesson(tmp_path / "course", demonstration)
    submitted = submission(lesson, double="def double(x):\n    return twice(x)")
    [played] = [c for c in submitted.cells if helper in c.source]
    played.source = "def twice(x):\n    return x + x + 1"
    with contextlib.closing(JudgeProcess(lesson, trusted=trusted)) as judge:
        intake = parse_submission(dumps(submitted).encode())
        result = grade_submission(
            intake, lesson, "01_tiny", judge, Limits(), trusted=trusted
        )
    assert result.exercises[0].outcome is Outcome.PASSED
    assert result.status is Status.GRADED_WITH_NOTE


def test_a_name_that_only_an_earlier_attempt_defines_is_found(lesson, grade):
    negate = "def negate(x):\n    return MINUS * x"
    submitted = submission(lesson, double=DOUBLE, negate=negate)
    place = [cell.id for cell in submitted.cells].index("double")
    attempt = copy.deepcopy(submitted.cells[place])
    attempt.update(id="attempt", source="MINUS = -1\n\n\ndef double(x):\n    return 0")
    submitted.cells.insert(place, attempt)
    result, found = grade(submitted)
    assert {one.outcome for one in found.values()} == {Outcome.PASSED}
    note = "double has 2 cells; the last one that was worked on counts."
    assert result.notes == (note,)


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("import no_such_package", "no_such_package"),
        ("import no_such_package as package, math", "no_such_package"),
        ("from no_such_package.plots import draw\ndraw(3)", "no_such_package"),
        ("from google.colab import drive\ndrive.mount('/drive')", "google"),
        ("%load_ext no_such_package\n%no_such_magic 3", "no_such_package"),
        (
            "import no_such_package as p\n\n\ndef frame(x):\n    return p.Frame(x)",
            "no_such_package",
        ),
    ],
    ids="import as from Colab extension used-elsewhere".split(),
)
def test_a_missing_package_costs_nothing_that_does_not_use_it(
    lesson, grade, line, package
):
    """Neither in the cell of an answer nor in one of the learner's own."""
    answers = {
        "double": f"{line}\n\n\ndef double(x):\n    return TWO * x",
        "negate": f"{line}\n\n\ndef negate(x):\n    return -x",
    }
    submitted = submission(lesson, **answers)
    extra_cells(submitted, f"{line}\nTWO = 2")
    result, found = grade(submitted)
    assert {one.outcome for one in found.values()} == {Outcome.PASSED}
    [note] = result.notes
    assert note.startswith("Not installed where this was graded")
    assert f": {package}" in note


@pytest.mark.parametrize(
    "line",
    [
        "name = input('Your name? ')",
        "import getpass\nkey = getpass.getpass()",
        "for _ in range(3):\n    print(int(input()))",
    ],
)
def test_a_question_to_the_keyboard_costs_nothing_that_does_not_need_its_answer(
    lesson, grade, line
):
    answers = {"double": f"{line}\n\n\ndef double(x):\n    return TWO * x"}
    submitted = submission(lesson, **answers, negate=NEGATE)
    extra_cells(submitted, f"{line}\nTWO = 2")
    result, found = grade(submitted)
    assert {one.outcome for one in found.values()} == {Outcome.PASSED}
    [note] = result.notes
    assert note.startswith("There is no keyboard where this was graded")
    assert line.partition("\n")[0] in note


def test_a_missing_package_costs_what_uses_it(lesson, grade):
    uses = "import no_such_package\n\n\ndef double(x):\n    return no_such_package.f(x)"
    result, found = grade(submission(lesson, double=uses, negate=NEGATE))
    assert (found["double"].outcome, found["double"].points) == (Outcome.RAISED, 0)
    assert found["negate"].outcome is Outcome.PASSED
    assert "no_such_package" in result.notes[0]


def test_a_package_that_is_looked_for_in_a_try_needs_no_note(lesson, grade):
    tries = "try:\n    import no_such_package\nexcept ImportError:\n    pass\n\n\n"
    result, found = grade(submission(lesson, double=tries + DOUBLE))
    assert found["double"].outcome is Outcome.PASSED
    assert result.status is Status.GRADED


@pytest.mark.parametrize(
    "debugging",
    [
        "import gc\nprint(len(gc.get_objects()))",
        "import ctypes\nprint(ctypes.sizeof(ctypes.c_double))",
        "import inspect\nprint(inspect.stack()[0].function)",
        "import sys\nsys.settrace(None)",
    ],
    ids="gc ctypes inspect settrace".split(),
)
def test_honest_debugging_keeps_its_score_and_is_noted(lesson, grade, debugging):
    submitted = submission(lesson, double=DOUBLE, negate=NEGATE)
    result, _ = grade(extra_cells(submitted, debugging, before="check-double"))
    assert (result.status, result.score) == (Status.GRADED_WITH_NOTE, 3)
    [note] = result.notes
    assert note.startswith("The code uses ") and result.reasons == ()


def test_an_import_in_the_set_up_cell_is_used_and_noted(lesson, grade):
    double = "def double(x):\n    return functools.reduce(int.__add__, [x, x])"
    submitted = submission(lesson, double=double)
    setup = next(cell for cell in submitted.cells if cell.id == "setup")
    setup.source += "\n\nimport functools\n"
    result, found = grade(submitted)
    assert found["double"].outcome is Outcome.PASSED
    assert result.status is Status.GRADED_WITH_NOTE


@pytest.mark.parametrize("below", ["two = 3\nnegate = None", "def two():\n    ..."])
def test_names_that_are_bound_anew_below_do_not_reach_answers_above(
    lesson, grade, below
):
    kind = "two = 2" if "negate" in below else "class two:\n    real = 2"
    value = "two" if "negate" in below else "two.real"
    double = f"{kind}\n\n\ndef double(x):\n    return {value} * x"
    submitted = submission(lesson, double=double, negate=NEGATE)
    submitted.cells.append(nbformat.v4.new_code_cell(below))
    _, found = grade(submitted)
    assert {one.outcome for one in found.values()} == {Outcome.PASSED}


def test_later_exercise_may_end_the_process(lesson, grade):
    submitted = submission(lesson, double=DOUBLE, negate=EXIT.format("negate"))
    _, found = grade(submitted)
    assert found["double"].outcome is Outcome.PASSED
    assert found["negate"].outcome is Outcome.RAISED


def test_cell_that_raises_after_its_function_is_judged_by_the_function(lesson, grade):
    submitted = submission(lesson, double=DOUBLE + "assert double(2) == 5")
    _, found = grade(submitted)
    assert found["double"].outcome is Outcome.PASSED


def test_edited_check_and_a_claim_do_not_help(lesson, grade):
    cheat = 'def negate(x):\n    print("negate  right")\n    return x'
    submitted = submission(lesson, double="def double(x):\n    return x", negate=cheat)
    check = next(cell for cell in submitted.cells if cell.id == "check-double")
    check.source = 'print("double  right  1 of 1 point")\n1'
    result, found = grade(submitted)
    assert {r.outcome for r in found.values()} == {Outcome.FAILED}
    assert (result.status, result.points) == (Status.GRADED, 0)


def test_added_cells_count_and_their_faults_cost_nothing(lesson, grade):
    submitted = submission(
        lesson, double="def double(x):\n    return helper(x)", negate=NEGATE
    )
    extra_cells(
        submitted,
        "def helper(x):\n    return 2 * x",
        "1 / 0",
        "import sys\nsys.exit()",
        "input()",
    )
    result, found = grade(submitted)
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}
    [note] = result.notes
    assert "input()" in note


def test_added_cells_that_never_end_are_left_out(lesson, grade):
    submitted = submission(lesson, double=DOUBLE, negate=NEGATE)
    extra_cells(submitted, *(3 * ["while True:\n    pass"]))
    result, found = grade(submitted, wall_s=2)
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}
    [note] = result.notes
    assert note.endswith('only as far as they define something: "while True:".')


def test_neighbour_that_breaks_things_costs_only_itself(lesson, grade):
    breaks = "import builtins\nbuiltins.abs = None\ndel builtins.print\n" + DOUBLE
    uses = "def negate(x):\n    print(abs(x))\n    return -x"
    result, found = grade(submission(lesson, double=breaks, negate=uses))
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}
    assert result.status is Status.GRADED_WITH_NOTE  # and a person sees that it did
    assert "The code replaces builtins.abs." in result.notes


def test_an_exercise_that_is_tried_alone_keeps_what_the_cells_above_define(
    lesson, grade
):
    breaks = "import math\n\nmath.trunc = None\n\n\n" + DOUBLE
    uses = "import math\n\n\ndef negate(x):\n    math.trunc(1)\n"
    uses += "    return double(x) - 3 * x"
    _, found = grade(submission(lesson, double=breaks, negate=uses))
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}


def test_settings_are_put_back_before_each_exercise(lesson, grade):
    sets = """\
import os, warnings, jax
jax.config.update("jax_enable_x64", True)
os.environ["LEFT_BEHIND"] = "1"
os.chdir("/")
warnings.simplefilter("error")


def double(x):
    return 2 * x
"""
    uses = """\
def negate(x):
    import os, warnings, jax
    assert not jax.config.jax_enable_x64 and "LEFT_BEHIND" not in os.environ
    assert os.getcwd() != "/"
    warnings.warn("only a warning")
    return -x
"""
    _, found = grade(submission(lesson, double=sets, negate=uses))
    assert {r.outcome for r in found.values()} == {Outcome.PASSED}


def test_answer_may_use_what_the_lesson_computed(trusted, tmp_path):
    demonstration = ('print("a demonstration")', "factor = 2\nprint(factor)")
    lesson = tiny.lesson(tmp_path / "course", demonstration)
    submitted = submission(lesson, double="def double(x):\n    return factor * x")
    with contextlib.closing(JudgeProcess(lesson, trusted=trusted)) as judge:
        intake = parse_submission(dumps(submitted).encode())
        result = grade_submission(
            intake, lesson, "01_tiny", judge, Limits(), trusted=trusted
        )
    assert result.exercises[0].outcome is Outcome.PASSED


def test_answer_may_use_it_also_beside_one_that_breaks_something(trusted, tmp_path):
    demonstration = ('print("a demonstration")', "factor = 2\nprint(factor)")
    lesson = tiny.lesson(tmp_path / "course", demonstration)
    uses = "import math\n\n\ndef double(x):\n    return math.trunc(1) * factor * x"
    breaks = "import math\n\nmath.trunc = None\n\n\n" + NEGATE
    submitted = submission(lesson, double=uses, negate=breaks)
    with contextlib.closing(JudgeProcess(lesson, trusted=trusted)) as judge:
        intake = parse_submission(dumps(submitted).encode())
        result = grade_submission(
            intake, lesson, "01_tiny", judge, Limits(), trusted=trusted
        )
    assert {one.outcome for one in result.exercises} == {Outcome.PASSED}


def test_result_says_what_was_seen_and_expected_and_keeps_the_code(lesson, grade):
    wrong = "def double(x):\n    return x"
    result, found = grade(submission(lesson, double=wrong))
    details = dict(found["double"].details)
    assert (details["called"], details["seen"]) == ("double(3)", "3")
    assert (details["expected"], found["double"].source) == ("6", wrong)
    [statement] = found["double"].statements
    assert (statement.name, statement.standing) == ("twice", "fails")
    assert dict(statement.rows) == details
    assert from_json(to_json(result)) == result


@pytest.mark.parametrize(
    "data, reason",
    [(b"", "empty"), (b"<html>Log in</html>", "web page"), (b'{"a": 1', "breaks off")],
    ids=["empty", "web page", "truncated"],
)
def test_file_without_work_gets_zero_and_a_reason(lesson, judge, data, reason):
    submitted = parse_submission(data)
    result = grade_submission(
        submitted, lesson, "01_tiny", judge, Limits(), trusted=True
    )
    assert result.status is Status.STUDENT_ERROR
    assert (result.score, result.max_points) == (0, 3)
    assert reason in " ".join(result.reasons)


def test_another_lesson_is_named(lesson, grade):
    cells = [nbformat.v4.new_markdown_cell("# Lesson 3. Else")]
    cells += [nbformat.v4.new_code_cell("def other(x):\n    return x")]
    result, _ = grade(nbformat.v4.new_notebook(cells=cells))
    assert result.status is Status.STUDENT_ERROR
    assert "not lesson 01_tiny" in " ".join(result.reasons)
