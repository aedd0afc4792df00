"""Hidden cases and solutions reach the judge, and nothing of a learner's."""

import ast
import contextlib

import printed
import pytest
import tiny
from classes import RIGHT, WRONG, answered, is_trusted

from grader.authoring.check_source import (
    checks_path,
    marked,
    read_checks,
    visible_source,
)
from grader.classroom.publishing import autograded_notebook
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess, material
from grader.kernel.learner_box import INSIDE, learner_packages
from grader.kernel.session import Session
from grader.lessons.release import dumps, lesson_paths, release
from grader.pages.feedback import feedback_page
from grader.results import Outcome
from grader.submissions.read_submission import parse_submission

NEEDLE = "needle-of-what-is-hidden"
CASE = "expect_close(observe(double, -7), -14)"
CHECKS = tiny.changed(tiny.CHECKS, (CASE, f"{CASE}  # {NEEDLE}"))
SOLUTION = ("secret = 2", f"secret = 2  # {NEEDLE}")
ANSWERS = {
    "right": RIGHT,
    "wrong": WRONG,
    "wrong in a hidden case": RIGHT
    | {"double": "def double(x):\n    return abs(2 * x)"},
    "raises": RIGHT | {"double": "def double(x):\n    return x.no_such_name"},
    "ends": RIGHT | {"double": "import os\n\n\ndef double(x):\n    os._exit(0)"},
    "untouched": {},
}


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course") / "course"
    return tiny.lesson(folder, SOLUTION, checks=CHECKS)


@pytest.fixture(scope="module")
def graded(lesson):
    """What became of each answer, and all that was told to learners' processes."""
    told, found, run = [], {}, Session.run

    def telling(session, source, *rest, **options):
        told.append(source)
        return run(session, source, *rest, **options)

    judge = JudgeProcess(lesson, trusted=is_trusted())
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(judge):
        patch.setattr(Session, "run", telling)
        for name, sources in ANSWERS.items():
            submitted = parse_submission(dumps(answered(lesson, **sources)).encode())
            found[name] = grade_submission(
                submitted, lesson, tiny.NAME, judge, Limits(), trusted=is_trusted()
            )
    return found, told


def test_the_judge_alone_is_told_what_is_hidden(lesson, graded):
    found, told = graded
    assert found["right"].points == 3
    assert found["wrong in a hidden case"].exercises[0].outcome is Outcome.FAILED
    given = material(lesson)
    assert NEEDLE in given["hidden"]["double"] and NEEDLE in given["solutions"][0]
    assert NEEDLE not in given["checks"]

    said = "\n".join(told)
    assert "examples_of_double" in said and "cases_of_double" not in said
    assert "BEGIN HIDDEN" not in said and "-14" not in said
    assert NEEDLE not in said


@pytest.mark.parametrize("name", ANSWERS)
def test_what_learners_get_back_holds_nothing_hidden(lesson, graded, name):
    result = graded[0][name]
    notebook = autograded_notebook(lesson, result)
    page = feedback_page(result, title="Tiny", student="ada")
    for text in (dumps(notebook), page):
        assert NEEDLE not in text
        assert "cases_of_double" not in text and "HIDDEN" not in text
    assert "checks" not in notebook.metadata


def test_a_release_holds_nothing_hidden(lesson):
    assert NEEDLE in dumps(lesson)
    released = dumps(release(lesson))
    assert NEEDLE not in released and "cases_of_double" not in released
    assert '"check(\\"double\\")"' in released


LESSONS = {path.stem: path for path in lesson_paths()}


@pytest.mark.parametrize("name", LESSONS)
def test_learners_copies_of_checks_hold_no_hidden_case(name):
    path = checks_path(LESSONS[name])
    hidden = [check.hidden for check in read_checks(path).values() if check.hidden]
    assert hidden
    visible = visible_source(path.read_text(encoding="utf-8"))
    compile(visible, name, "exec")
    assert hidden_in(visible) == []
    assert not any(source in visible for source in hidden)


def hidden_in(source: str) -> list[str]:
    """Lists the exercises of which a module holds hidden cases."""
    return [name for name, _, mark in marked(ast.parse(source)) if mark == "hidden"]


def test_what_a_learners_box_sees_of_the_course_holds_no_hidden_case():
    paths = [p for folder in learner_packages().values() for p in folder.rglob("*")]
    modules = [path for path in paths if path.suffix == ".py"]
    assert any(path.match("coursekit/checks/__init__.py") for path in modules)
    assert {path.suffix for path in paths if path.is_file()} <= {".py", ".pyc"}
    for path in modules:
        assert hidden_in(path.read_text(encoding="utf-8")) == [], path


LOOKS = f"""
import pathlib
from coursekit import materials

print(materials.solutions_folder())
for name in {[*LESSONS]}:
    print(len(materials.solutions_of(name)))
folder = pathlib.Path({INSIDE!r})
print(*sorted(path.relative_to(folder) for path in folder.rglob("*.py")))
"""


def test_in_a_learners_box_there_are_no_solutions(contained_here):
    with Session(Limits(wall_s=40)) as session:
        said = printed.run(session, LOOKS)
    assert said.error == ""
    place, *counts, files = said.text.splitlines()
    assert (place, {*counts}) == ("None", {"0"})
    seen = {
        f"{name}/{path.relative_to(folder)}"
        for name, folder in learner_packages().items()
        for path in folder.rglob("*.py")
    }
    assert {*files.split()} == seen
