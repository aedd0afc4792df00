"""Where another service runs the grader, its file says how each statement stands.

The schemas hold what Gradescope's documentation and Classroom 50's published schema
(schemas/result-v1.schema.json) ask for.
"""

import json
import os
import stat
import subprocess
import sys
import zipfile

import nbformat
import pytest
import tiny
from classes import WRONG, answered
from jsonschema import Draft202012Validator

from coursekit.outcomes import StatementResult
from grader.__main__ import main
from grader.authoring.build import read
from grader.learner.autograder import FORMATS, classroom50, gradescope
from grader.results import ExerciseResult, Outcome, Result, Status

NUMBER, TEXT = {"type": "number", "minimum": 0}, {"type": "string"}
WHOLE, NAME = {"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1}
SEEN = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}


def objects(required, **properties):
    facts = {"required": required, "properties": properties}
    return {"type": "object", "additionalProperties": False} | facts


TEST = objects(
    ["score", "name"],
    **{"score": NUMBER, "max_score": NUMBER, "name": NAME, "output": TEXT},
    **{"visibility": SEEN, "number": TEXT, "tags": {"type": "array"}},
)
GRADESCOPE = objects(
    ["score", "tests"],
    **{"score": NUMBER, "execution_time": NUMBER, "output": TEXT, "visibility": SEEN},
    **{"stdout_visibility": SEEN, "extra_data": {"type": "object"}},
    tests={"type": "array", "items": TEST},
)
C50_TEST = {
    "type": "object",
    "required": ["test-name", "passed", "score", "max-score"],
    "properties": {"test-name": NAME, "passed": {"type": "boolean"}}
    | {"score": WHOLE, "max-score": WHOLE},
}
UTC = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
OURS = "schema classroom assignment submission commit release review score max-score"
STAMPED = "assignment_type owner datetime".split()  # by Classroom 50's own runner
CLASSROOM50 = objects(
    [*OURS.split(), *STAMPED, "tests"],
    **{"schema": {"const": "classroom50/result/v1"}, "score": WHOLE},
    **dict.fromkeys("classroom assignment owner commit release review".split(), NAME),
    **{"submission": {"type": "string", "pattern": "^submit/"}, "max-score": WHOLE},
    **{"assignment_type": {"enum": ["individual", "group"]}, "datetime": UTC},
    tests={"type": "array", "items": C50_TEST},
)
ENVIRONMENT = {
    "CLASSROOM": "jax",
    "ASSIGNMENT": "lesson-1",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://example.org/commit/abc",
    "RELEASE_URL": "https://example.org/releases/abc",
    "REVIEW_URL": "https://example.org/compare/000...abc",
}


SAW = (("seen", "3"),)


def statements(*standings):
    """One essential statement, worth half, and others, which share the rest."""
    share = 0.5 / (len(standings) - 1)
    names = "ABCDE"[: len(standings)]
    return tuple(
        StatementResult(name, not i, share * bool(i), standing, "Why.", SAW)
        for i, (name, standing) in enumerate(zip(names, standings, strict=True))
    )


def exercise(name, points, max_points, *standings, worth=None, outcome=Outcome.PARTLY):
    worth = max_points if worth is None else worth
    found = statements(*standings) if standings else ()
    facts = {"worth": worth, "share": points / worth, "statements": found}
    return ExerciseResult(name, outcome, points, max_points, **facts)


PART = exercise("fsdp", 2.25, 3, "holds", "holds", "fails")
NONE = exercise("tp", 0, 2, "fails", "holds", outcome=Outcome.FAILED)
STUB = exercise("dp", 0, 1, outcome=Outcome.NOT_ATTEMPTED)
BONUS = exercise("pp", 1, 0, "holds", "holds", worth=1, outcome=Outcome.PASSED)
RESULT = Result("01_tiny", (PART, NONE, STUB, BONUS), notes=("A note.",))
RESULTS = {
    "graded": RESULT,
    "other": Result("01_tiny", (STUB,), Status.STUDENT_ERROR, reasons=("No file.",)),
    "review": Result("01_tiny", (STUB,), Status.NEEDS_REVIEW, reasons=("Forged.",)),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_each_file_is_what_the_service_publishes(result):
    Draft202012Validator(GRADESCOPE).validate(gradescope(result))
    found = classroom50(result, ENVIRONMENT)
    stamped = {"assignment_type": "individual", "owner": "ada"}
    stamped["datetime"] = "2026-06-01T14:32:05Z"
    Draft202012Validator(CLASSROOM50).validate(found | stamped)
    assert found["review"] == ENVIRONMENT["REVIEW_URL"] != found["commit"]
    assert found["score"] <= found["max-score"]
    assert all(one["score"] <= one["max-score"] for one in found["tests"])


def test_each_statement_has_its_points_and_the_essential_ones_decide():
    tests = gradescope(RESULT)["tests"]
    assert [(one["name"], one["score"], one["max_score"]) for one in tests] == [
        ("fsdp: A", 1.5, 1.5),
        ("fsdp: B", 0.75, 0.75),
        ("fsdp: C", 0, 0.75),
        ("tp: A", 0, 1),
        ("tp: B", 0, 1),
        ("dp", 0, 1),
        ("pp: A", 0.5, 0),
        ("pp: B", 0.5, 0),
    ]
    assert tests[2]["output"] == "fails\nWhy.\nseen: 3"
    assert gradescope(RESULT)["score"] == RESULT.points == 3.25
    assert gradescope(RESULT)["output"] == "A note."


def test_classroom_50_counts_in_hundredths_and_caps_a_bonus():
    found = classroom50(RESULT, ENVIRONMENT)
    assert (found["score"], found["max-score"]) == (325, 600)
    assert [one["score"] for one in found["tests"]] == [150, 75, 0, 0, 0, 0, 0, 0]
    best = Result("01_tiny", (exercise("a", 1, 1, "holds", "holds"), BONUS))
    assert classroom50(best, ENVIRONMENT)["score"] == 100


def test_what_a_person_has_to_decide_says_no_more():
    [row] = gradescope(RESULTS["review"])["tests"]
    assert row["output"] == "A person has to look at it." and row["score"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "moodle"], 'No format "moodle": choose gradescope, classroom50.'),
        (["--format", "gradescope", "--lesson", "9"], 'There is no lesson "9".'),
        (["--format", "gradescope"], "nowhere.ipynb does not exist."),
    ],
)
def test_bad_input_is_named(tmp_path, capsys, words, said):
    to = tmp_path / "result.json"
    file = str(tmp_path / "nowhere.ipynb")
    start = ["result", file, "--lesson", "1", "--to", str(to)]
    assert main([*start, *words]) == 2
    assert said in capsys.readouterr().err and not to.exists()


@pytest.fixture
def own(tmp_path):
    """A private folder with the tiny lesson."""
    folder = tmp_path / "own" / "solutions"
    (folder / "checks").mkdir(parents=True)
    source = tiny.SOURCE.replace("# Lesson 1.", "# Lesson 6.")
    source = source.replace("Exercise 1.", "Exercise 6.")
    (folder / "06_tiny.py").write_text(source.replace("#\n# COLAB_BADGE\n", ""))
    (folder / "checks" / "06_tiny.py").write_text(tiny.CHECKS)
    return folder.parent


@pytest.mark.slow
def test_gradescopes_autograder_runs_as_its_documentation_says(own, tmp_path):
    """The zip's root has two scripts; one reads submission/, and writes results/."""
    packed, place = tmp_path / "autograder.zip", tmp_path / "autograder"
    words = ["--lesson", "06", "--to", str(packed), "--folder", str(own)]
    assert main(["autograder", *words]) == 0
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600
    with zipfile.ZipFile(packed) as archive:
        assert {"setup.sh", "run_autograder"} < {*archive.namelist()}
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
        archive.extractall(place / "source")
    for folder in ("submission", "results"):
        (place / folder).mkdir()
    lesson = read(own / "solutions" / "06_tiny.py", own)
    work = answered(lesson, **WRONG)
    nbformat.write(work, place / "submission" / "my homework.ipynb")
    script = place / "source" / "run_autograder"
    env = os.environ | {"AUTOGRADER": str(place), "PYTHON": sys.executable}
    subprocess.run(["bash", script], env=env, check=True, cwd=place)
    found = json.loads((place / "results" / "results.json").read_text())
    Draft202012Validator(GRADESCOPE).validate(found)
    scores = {one["name"]: (one["score"], one["max_score"]) for one in found["tests"]}
    assert scores == {"double: twice": (0, 1), "negate: negative": (2, 2)}
    assert found["score"] == 2 and "my homework.ipynb" in found["output"]
    assert {*FORMATS} == {"gradescope", "classroom50"}
