"""A submission gets the points of its right answers, whatever else it does."""

import copy

import nbformat
import pytest
import tiny

from grader.autograde import autograde, judge
from grader.notebooks import checks, exercises, release
from grader.results import ExerciseResult, Outcome, Result

DOUBLE = "def double(x):\n    return x + x\n"
NEGATE = "def negate(x):\n    return 0 - x\n"
EXIT = "import os\n\n\ndef double(x):\n    os._exit(0)"
# Prints to the notebook's own stream, which outlives the one that a check sets up.
CLAIM = """\
import os, sys, time
notebook = sys.stdout


def double(x):
    print("Right: double does what it should.", file=notebook, flush=True)
    time.sleep(0.5)  # the stream is sent by a thread
    os._exit(0)
"""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture(scope="module")
def quick_lesson(tmp_path_factory):
    root = tmp_path_factory.mktemp("course") / "course"
    return tiny.lesson(root, setup=tiny.SETUP_WITHOUT_JAX)


def submission(lesson, **answers):
    notebook = release(lesson)
    for name, source in answers.items():
        exercises(notebook)[name].source = source
    return notebook


def grade(submitted, lesson, **limits) -> dict:
    result = autograde(submitted, lesson, "01_tiny", **limits)
    assert [r.exercise for r in result.exercises] == ["double", "negate"]
    return {r.exercise: r for r in result.exercises}


def test_solved_lesson_gets_full_points_and_reports_each_cell(quick_lesson):
    cells = []
    solved, report = quick_lesson, lambda: cells.append(1)
    result = autograde(solved, solved, "01_tiny", on_cell=report)
    assert (result.points, result.max_points) == (3, 3)
    assert {r.outcome for r in result.exercises} == {Outcome.PASSED}
    assert len(cells) == sum(cell.cell_type == "code" for cell in solved.cells)


def test_untouched_lesson_gets_nothing(lesson):
    result = autograde(release(lesson), lesson, "01_tiny")
    assert isinstance(result, Result)
    assert (result.lesson, result.points, result.max_points) == ("01_tiny", 0, 3)
    assert {r.outcome for r in result.exercises} == {Outcome.NOT_ATTEMPTED}


@pytest.mark.parametrize(
    "source, outcome, message",
    {
        "right on visible inputs only": (
            "def double(x):\n    return 6",
            Outcome.FAILED,
            "The result is wrong.",
        ),
        "syntax error": ("def double(x:\n", Outcome.RAISED, "SyntaxError: "),
        "exit in the cell": (
            f"{DOUBLE}\nimport sys\nsys.exit()",
            Outcome.RAISED,
            "SystemExit: ",
        ),
    }.values(),
    ids=["visible inputs", "syntax error", "exit in cell"],
)
def test_only_the_faulty_exercise_is_lost(quick_lesson, source, outcome, message):
    submitted = submission(quick_lesson, double=source, negate=NEGATE)
    found = grade(submitted, quick_lesson)
    assert (found["double"].outcome, found["double"].points) == (outcome, 0)
    assert found["double"].message.startswith(message)
    assert (found["negate"].outcome, found["negate"].points) == (Outcome.PASSED, 2)


def test_exit_in_a_function_is_an_error_of_that_exercise(lesson):
    exits = "import sys\n\n\ndef double(x):\n    sys.exit(1)"
    found = grade(submission(lesson, double=exits, negate=NEGATE), lesson)
    assert found["double"].outcome is Outcome.RAISED
    assert found["double"].message == "SystemExit: 1"
    assert found["negate"].outcome is Outcome.PASSED


def test_endless_loop_is_stopped_and_the_rest_graded(quick_lesson):
    source = "def double(x):\n    while True:\n        pass"
    submitted = submission(quick_lesson, double=source, negate=NEGATE)
    found = grade(submitted, quick_lesson, timeout_s=3)
    assert found["double"].outcome is Outcome.TIMED_OUT
    assert found["double"].points == 0
    assert "is there a loop without an end?" in found["double"].message
    assert found["negate"].outcome is Outcome.PASSED


def test_dead_kernel_keeps_the_points_reached_before(quick_lesson):
    exits = EXIT.replace("double", "negate")
    submitted = submission(quick_lesson, double=DOUBLE, negate=exits)
    found = grade(submitted, quick_lesson)
    assert found["double"].outcome is Outcome.PASSED
    assert found["negate"].outcome is not Outcome.PASSED


@pytest.mark.parametrize("exits", [EXIT, CLAIM], ids=["in silence", "with a claim"])
def test_dead_kernel_scores_nothing_from_then_on(quick_lesson, exits):
    submitted = submission(quick_lesson, double=exits, negate=NEGATE)
    found = grade(submitted, quick_lesson).values()
    assert Outcome.PASSED not in {r.outcome for r in found}
    assert sum(r.points for r in found) == 0


@pytest.fixture(scope="module")
def cheated(quick_lesson):
    """Two wrong answers: one edits its check, one says what a right one would."""
    cheat = 'def negate(x):\n    print("Right: negate")\n    return x'
    submitted = submission(
        quick_lesson, double="def double(x):\n    return x", negate=cheat
    )
    check = next(cell for cell in submitted.cells if cell.id == "check-double")
    check.source = 'print("Right: double does what it should. 1 of 1 point.")'
    return grade(submitted, quick_lesson)


def test_edited_check_does_not_help(cheated):
    assert cheated["double"].outcome is Outcome.FAILED
    assert cheated["double"].points == 0


def test_check_that_prints_right_and_raises_does_not_pass(cheated):
    assert cheated["negate"].outcome is Outcome.FAILED
    assert cheated["negate"].points == 0


def test_added_cells_count_and_their_faults_cost_nothing(quick_lesson):
    uses = "def double(x):\n    return helper(x)"
    submitted = submission(quick_lesson, double=uses, negate=NEGATE)
    place = [cell.id for cell in submitted.cells].index("double")
    submitted.cells[place:place] = [
        nbformat.v4.new_code_cell("def helper(x):\n    return 2 * x"),
        nbformat.v4.new_code_cell("1 / 0"),
        nbformat.v4.new_code_cell("import sys\nsys.exit()"),
    ]
    found = grade(submitted, quick_lesson).values()
    assert {r.outcome for r in found} == {Outcome.PASSED}


def says(text):
    return nbformat.v4.new_output("stream", text=text)


def raises(name, text=""):
    return nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[])


RIGHT = says("Right: double does what it should. 1 of 1 point.\n")
WRONG = "Wrong: The result is wrong\non device 3.\n  called    double(3)\n"
STUB = "Not attempted yet: double still holds its stub.\ndouble: 0 of 1 point."
# What the exercise's cell put out, what its check did: outcome, message.
VERDICTS = {
    "right": ([], [RIGHT], Outcome.PASSED, ""),
    "right after a warning": ([], [says("Warning!\n"), RIGHT], Outcome.PASSED, ""),
    "wrong": (
        [],
        [raises("Wrong", WRONG)],
        Outcome.FAILED,
        "The result is wrong on device 3.",
    ),
    "wrong after a claim": (
        [],
        [RIGHT, raises("Wrong", WRONG)],
        Outcome.FAILED,
        "The result is wrong on device 3.",
    ),
    "stub": (
        [],
        [raises("NotAttempted", STUB)],
        Outcome.NOT_ATTEMPTED,
        "double still holds its stub.",
    ),
    "check raises": (
        [],
        [raises("Raised", "Your code raised: KeyError: 3\n  called  double(3)")],
        Outcome.RAISED,
        "KeyError: 3",
    ),
    "check is broken": (
        [],
        [raises("BrokenCheck", "The check could not run: ValueError: x")],
        Outcome.BROKEN,
        "ValueError: x",
    ),
    "check is interrupted": (
        [],
        [RIGHT, raises("KeyboardInterrupt")],
        Outcome.TIMED_OUT,
        "It was stopped at the time limit: is there a loop without an end?",
    ),
    "cell is interrupted": (
        [raises("KeyboardInterrupt")],
        [RIGHT],
        Outcome.TIMED_OUT,
        "It was stopped at the time limit: is there a loop without an end?",
    ),
    "cell raises": (
        [raises("ValueError", "no")],
        [RIGHT],
        Outcome.RAISED,
        "ValueError: no",
    ),
    "silence": ([], [], Outcome.BROKEN, "The check ended without a verdict."),
    "claim in the exercise": (
        [RIGHT],
        [],
        Outcome.BROKEN,
        "The check ended without a verdict.",
    ),
    "claim for another exercise": (
        [],
        [says("Right: double_all does what it should.\n")],
        Outcome.BROKEN,
        "The check ended without a verdict.",
    ),
    "claim inside a line": (
        [],
        [says("This is Right: double\n")],
        Outcome.BROKEN,
        "The check ended without a verdict.",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict_is_read_from_what_the_two_cells_put_out(quick_lesson, case):
    outputs, check_outputs, outcome, message = VERDICTS[case]
    executed = copy.deepcopy(quick_lesson)
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.execution_count = 1
    exercises(executed)["double"].outputs = outputs
    checks(executed)["double"].outputs = check_outputs
    double, negate = judge(executed, "01_tiny").exercises
    points = 1 if outcome is Outcome.PASSED else 0
    assert double == ExerciseResult("double", outcome, points, 1, message)
    assert negate.outcome is Outcome.BROKEN


def test_checks_that_never_ran_score_nothing(quick_lesson):
    outcomes = [r.outcome for r in judge(quick_lesson, "01_tiny").exercises]
    assert outcomes == [Outcome.RAISED, Outcome.RAISED]
