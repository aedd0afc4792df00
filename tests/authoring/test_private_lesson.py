"""A private lesson is built, released, graded and exported as the course's own are."""

import csv
import re
import shutil

import nbformat
import pytest
import tiny
from classes import generate_assignment, is_trusted, printed

from coursekit.setup import version_of
from grader import ROOT
from grader.__main__ import main
from grader.authoring import build as building
from grader.authoring.build import build, stale
from grader.authoring.new import new_exercise, new_lesson
from grader.authoring.rules import BuildError
from grader.classroom.course import make_course
from grader.classroom.export import export
from grader.classroom.folder import Classroom
from grader.classroom.grade import grade
from grader.lessons.coursekit import read as modules
from grader.lessons.release import exercises

NAME, SOURCE = "06_padding", "solutions/06_padding.py"
CHECKS, ANSWERS = "solutions/checks/06_padding.py", "solutions/answers/06_padding"
RIGHT = """\
def center(x, axis_name):
    total = jax.lax.psum(jnp.stack([x.sum(), x.size]), axis_name)
    return x - total[0] / total[1]
"""
WRONG = "def center(x, axis_name):\n    return x - x.mean()"
# What only the hidden cases and the solution say.
HIDDEN = ("cases_of_center", "yield Case", "BEGIN HIDDEN TESTS")
SOLUTION = "pmean(x.mean(), axis_name)"
OPEN = '"layout": "a row for each device",'

pytestmark = pytest.mark.slow


def edit(path, old, new):
    path.write_text(tiny.changed(path.read_text(), (old, new)))


@pytest.fixture(scope="module")
def first_build(tmp_path_factory):
    """A folder with a new lesson and exercise, built, and what the build wrote."""
    folder = tmp_path_factory.mktemp("private") / "my-course"
    new_lesson("padding", folder)
    new_exercise("06", "center", folder)
    return folder, build(root=folder)


@pytest.fixture
def own(first_build, tmp_path):
    """A copy of the built folder, for one test to change."""
    return shutil.copytree(first_build[0], tmp_path / "my-course")


@pytest.fixture
def runs(monkeypatch):
    """Lists the lessons that are run, of which each is left as it was."""
    found = []

    def run(path, lesson):
        found.append(path.stem)
        return building.read_notebook(path.with_suffix(".ipynb"))

    monkeypatch.setattr(building, "run", run)
    return found


def test_both_notebooks_and_the_package_beside_them_are_written(first_build):
    folder, written = first_build
    names = {path.relative_to(folder).as_posix() for path in written}
    package = {name for name in names if name.startswith("lessons/coursekit/")}
    checks = f"lessons/coursekit/checks/{NAME}.py"
    notebooks = {f"solutions/{NAME}.ipynb", f"lessons/{NAME}.ipynb"}
    assert names - package == notebooks and checks in package
    copied = {
        path.relative_to(folder / "lessons/coursekit").as_posix(): path.read_text()
        for path in (folder / "lessons/coursekit").rglob("*.py")
    }
    assert version_of(copied) == version_of(modules())
    assert stale(root=folder) == {}


def test_release_has_neither_solution_nor_hidden_cases(first_build):
    lessons = (first_build[0] / "lessons").rglob("*")
    text = "".join(
        path.read_text()
        for path in lessons
        if path.name in (f"{NAME}.ipynb", f"{NAME}.py")
    )
    assert "def center(x, axis_name)" in text and "examples_of_center" in text
    assert not [one for one in (*HIDDEN, SOLUTION) if one in text]


@pytest.mark.parametrize(
    ("file", "old", "new", "is_run"),
    [
        (SOURCE, "Data is often centered", "Data is rarely centered", False),
        (SOURCE, 'print(f"{jax', 'print(f"here {jax', True),
        (SOURCE, SOLUTION, "pmean(jnp.mean(x), axis_name)", True),
        (
            CHECKS,
            "size=(num_devices, size)) * 10",
            "size=(num_devices, size))",
            True,
        ),
        (f"{ANSWERS}/center.py", "x.size), axis", "x.size + 0), axis", True),
        (f"{ANSWERS}/center.py", "the number of all", "the count of all", True),
    ],
    ids=["text", "code", "solution", "hidden cases", "answer", "about an answer"],
)
def test_only_what_changed_is_run(own, runs, file, old, new, is_run):
    build(root=own)
    assert runs == []
    edit(own / file, old, new)
    build(root=own)
    assert runs == ([NAME] if is_run else [])


def test_the_command_says_what_it_wrote_and_what_comes_next(own, runs):
    following = f"Next: python -m grader course CLASS --with {own}"
    assert printed(main, ["build", "--folder", str(own)]) == (0, [following])
    edit(own / SOURCE, "Data is often", "Data is rarely")
    _, lines = printed(main, ["build", "6", "--folder", str(own)])
    notebooks = f"solutions/{NAME}.ipynb", f"lessons/{NAME}.ipynb"
    assert lines == [*(f"wrote {name}" for name in notebooks), following]


def test_a_fresh_lesson_is_run_where_that_is_asked_for(own, runs):
    build(root=own, rerun=True)
    assert runs == [NAME]


def test_a_module_that_the_package_lost_is_removed(own, runs):
    gone = own / "lessons/coursekit/gone.py"
    gone.write_text("")
    build(root=own)
    assert not gone.exists()


def test_known_answers_that_get_something_else_are_named(own):
    """With the line, the statements that fail, and what the check said."""
    path = own / ANSWERS / "center.py"
    before = (own / "lessons" / f"{NAME}.ipynb").read_bytes()
    edit(path, "return x - total / count", "return x - total")
    edit(path, 'fails="mean of all; any axis"', 'fails="any axis"')
    edit(own / SOURCE, "Data is often", "Data is rarely")
    with pytest.raises(BuildError) as caught:
        build(root=own)
    right, wrong = str(caught.value).splitlines()
    assert right.startswith(
        f'{path}:1: The right answer "sums and sizes": the check says "wrong"; '
        "it fails: mean of all; any axis. The result is wrong"
    )
    assert wrong.startswith(
        f'{path}:10: The wrong answer "own mean" should fail: any axis. '
        'But the check says "wrong"; it fails: mean of all; any axis.'
    )
    assert (own / "lessons" / f"{NAME}.ipynb").read_bytes() == before


def test_a_check_that_cannot_run_is_named_with_its_exercise(own):
    edit(own / CHECKS, OPEN, '**{"layout": str(1 / 0)},')
    with pytest.raises(BuildError) as caught:
        build(root=own)
    message = str(caught.value)
    assert "the solution of center does not get the 2 points" in message
    assert "ZeroDivisionError: division by zero" in message
    assert "report it" not in message


def test_a_class_takes_only_what_has_been_built(own, tmp_path):
    tiny.write_course(tmp_path / "course")
    edit(own / CHECKS, "* 10 + 1", "* 9 + 1")
    with pytest.raises(BuildError, match="has changed since its last build"):
        make_course(tmp_path / "class", private=[own], root=tmp_path / "course")
    assert not (tmp_path / "class").exists()


def test_the_handbooks_example_can_be_followed_to_the_letter(tmp_path):
    own = tmp_path / "own"
    lesson, _ = new_lesson("norms", own)
    _, checks, answers = new_exercise("06", "global_norm", own)
    page = (ROOT / "docs" / "handbook" / "own-exercises.md").read_text()
    task, solution, expected, known = re.findall(
        r"(?ms)^```(?:python)?\n(# ### .*?|    .*?|# %%.*?)^```\n", page
    )

    def replace(path, start, end, new):
        old = path.read_text()
        place, after = old.index(start), old.index(end)
        path.write_text(old[:place] + new + old[after:])

    replace(lesson, "# ### Exercise", "\n\n# %% exercise", task)
    docstring, answer, more = re.split(r"(?m)^    \.\.\.\n", solution)
    replace(lesson, '    """Subtracts', "    ### BEGIN", docstring)
    replace(lesson, "    # All blocks", "    ### END", answer)
    replace(lesson, "\n\n# %% [markdown] hints", "\n# %% [markdown]\n# **Your", more)
    text = checks.read_text().replace("mean of all", "norm of all")
    checks.write_text(text)
    own_value, two = expected.split("\n\n")
    replace(
        checks, "        own = x", '    with statement("one number', f"{own_value}\n"
    )
    replace(checks, "        expect_close(seen, x[:2]", "\n\n# The hidden", two)
    answers.write_text(known)
    assert build(root=own)
    released = (own / "lessons" / "06_norms.ipynb").read_text()
    assert "Optax's" in released and "batch normalization" not in released


@pytest.fixture(scope="module")
def classroom(first_build, tmp_path_factory):
    """A class with a private lesson, released; ada's work is right, bob's wrong."""
    folder = tmp_path_factory.mktemp("class")
    tiny.write_course(folder / "course")
    own, place = first_build[0], folder / "class"
    make_course(place, private=[own], root=folder / "course")
    generate_assignment(place, NAME)
    released = place / "release" / NAME / f"{NAME}.ipynb"
    for learner, answer in {"ada": RIGHT, "bob": WRONG, "cleo": None}.items():
        notebook = nbformat.read(released, as_version=4)
        if answer:
            exercises(notebook)["center"].source = answer
        path = place / "submitted" / learner / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    status, _ = printed(grade, place, trusted=is_trusted(), workers=1)
    assert status == 0
    return place


def test_nbgraders_release_has_neither_solution_nor_hidden_cases(classroom):
    files = [*(classroom / "release" / NAME).rglob("*.*")]
    own = [path for path in files if path.stem == NAME]
    assert len(own) == 2  # the notebook, and the checks that learners may read
    text = "".join(path.read_text() for path in own)
    assert not [one for one in (*HIDDEN, SOLUTION) if one in text]


def test_answers_get_their_points(classroom):
    room = Classroom(classroom)
    results = {one.student: room.published(one).result for one in room.submissions()}
    assert {name: one.score for name, one in results.items()} == {
        "ada": 2,
        "bob": 0,
        "cleo": 0,
    }
    [bob] = results["bob"].exercises
    failed = [one.name for one in bob.statements if one.standing == "fails"]
    assert failed[0] == "mean of all"


def test_scores_are_exported(classroom, tmp_path):
    printed(export, classroom, tmp_path / "grades.csv")
    with open(tmp_path / "grades.csv", newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.DictReader(file) if row["lesson"] == NAME]
    scores = {row["student"]: (row["score"], row["max_score"]) for row in rows}
    assert scores == {"ada": ("2", "2"), "bob": ("0", "2"), "cleo": ("0", "2")}


def test_an_update_of_the_course_keeps_and_renews_it(classroom, tmp_path):
    """The class remembers the folder, so nobody has to name it again."""
    copy = shutil.copytree(classroom, tmp_path / "class")
    source = copy / "source" / NAME / f"{NAME}.ipynb"
    fresh = source.read_bytes()
    source.unlink()
    course = classroom.parent / "course"
    assert NAME in make_course(copy, update=True, root=course)
    assert source.read_bytes() == fresh


def test_a_class_whose_private_lessons_have_moved_says_where_they_were(own, tmp_path):
    course = tmp_path / "course"
    tiny.write_course(course)
    make_course(tmp_path / "class", private=[own], root=course)
    own.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=r"my-course holds no lesson.*--without"):
        make_course(tmp_path / "class", update=True, root=course)


def test_a_private_copy_replaces_our_lesson_in_a_class(tmp_path, monkeypatch):
    course, own = tmp_path / "course", tmp_path / "own"
    path = tiny.write_course(course)
    (own / "solutions" / "checks").mkdir(parents=True)
    shutil.copy(path, own / "solutions")
    text = path.read_text().replace("A demonstration.", "A private demonstration.")
    (own / "solutions" / path.name).write_text(text)
    shutil.copy(path.parent / "checks" / path.name, own / "solutions" / "checks")
    monkeypatch.setattr("grader.classroom.course.refuse_unbuilt", lambda folder: None)
    assert make_course(tmp_path / "class", private=[own], root=course) == {
        tiny.NAME: "written"
    }
    source = tmp_path / "class" / "source" / tiny.NAME / f"{tiny.NAME}.ipynb"
    assert "A private demonstration." in source.read_text()
