"""An author's folder: what `new` writes is whole, and what it refuses says why."""

import ast
import re
import subprocess
import sys

import pytest
from classes import printed

from grader import ROOT, CourseError
from grader.__main__ import main
from grader.authoring import build as building
from grader.authoring.build import read_lessons
from grader.authoring.known_answers import answers_to
from grader.authoring.lesson import read_cells
from grader.authoring.new import new_exercise, new_lesson
from grader.lessons.release import checks, exercises, lesson_paths


@pytest.fixture
def folder(tmp_path):
    """A folder with a lesson, which has one exercise."""
    folder = tmp_path / "my-course"
    new_lesson("padding", folder)
    new_exercise("06", "center", folder)
    return folder


def read(folder):
    """Reads the folder's lessons, by name; raises where they break a rule."""
    lessons = read_lessons(folder)
    return {path.stem: lesson for path, lesson in lessons.items()}


def files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_an_exercise_is_a_lesson_checks_and_answers_that_break_no_rule(folder):
    assert files(folder).keys() == {
        "solutions/06_padding.py",
        "solutions/checks/06_padding.py",
        "solutions/answers/06_padding/center.py",
    }
    lesson = read(folder)["06_padding"]
    assert [*exercises(lesson)] == [*checks(lesson)] == ["center"]
    assert "BEGIN HIDDEN TESTS" in checks(lesson)["center"].source
    kinds = [one.kind for one in answers_to(folder / "solutions/06_padding.py")]
    assert kinds == ["right", "wrong"]


def test_a_lesson_without_exercises_breaks_no_rule(tmp_path):
    new_lesson("padding", tmp_path / "own")
    assert not exercises(read(tmp_path / "own")["06_padding"])


def test_notes_for_authors_reach_no_notebook(folder):
    lesson = read(folder)["06_padding"]
    assert "<!--" in files(folder)["solutions/06_padding.py"]
    assert "<!--" not in "".join(cell.source for cell in lesson.cells)


def test_only_its_owner_can_read_a_new_folder(folder):
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_second_exercise_follows_the_first(folder):
    new_exercise("06_padding", "scale", folder)
    text = files(folder)["solutions/06_padding.py"]
    assert re.findall("### Exercise (.*)", text) == ["6.1: center", "6.2: scale"]
    last = [cell.mark for cell in read_cells(folder / "solutions/06_padding.py")][-2:]
    assert last == ["", "scorecard"]  # with the text that introduces it
    module = ast.parse(files(folder)["solutions/checks/06_padding.py"])
    imports = [ast.unparse(n) for n in module.body if isinstance(n, ast.ImportFrom)]
    assert len(imports) == len({*imports})
    assert "from coursekit.learner import center, scale" in imports
    assert [*exercises(read(folder)["06_padding"])] == ["center", "scale"]


@pytest.mark.parametrize("lesson", ["01", "02", "03", "04", "05", "06"])
def test_imports_are_at_the_top_and_in_order_after_another_exercise(lesson, folder):
    own = folder / "solutions/checks/06_padding.py"
    lacking = "from coursekit.(expect_|hidden).*\n"
    own.write_text(re.sub(lacking, "", own.read_text()))
    _, checks, *_ = new_exercise(lesson, "mean_over_all", folder)
    ours = "lint.isort.known-first-party=['coursekit']"
    rules = ["--isolated", "--select=E402,F811,F821,I", f"--config={ours}"]
    ruff = [sys.executable, "-m", "ruff", "check", *rules, str(checks)]
    found = subprocess.run(ruff, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_an_exercise_of_one_of_our_lessons_is_added_to_a_copy_of_it(folder):
    new_exercise("3", "center", folder)
    own = read(folder)["03_pmap_training"]
    [ours] = lesson_paths(["3"])
    marks = [(one.mark, one.name) for one in read_cells(ours) if one.mark]
    assert [*exercises(own)] == [n for m, n in marks if m == "exercise"] + ["center"]
    kinds = [(a.exercise, a.kind) for a in answers_to(folder / "solutions" / ours.name)]
    names = sorted(exercises(own))
    assert sorted(kinds) == [(n, kind) for n in names for kind in ("right", "wrong")]
    assert "colab" not in own.cells[0].source  # which cannot open it


def test_a_lesson_gets_the_next_number(folder):
    assert new_lesson("more", folder)[0].stem == "07_more"
    assert new_lesson("next", folder)[0].stem == "08_next"


# What is asked for, and the one line that is said.
REFUSED = {
    "a lesson's name": (
        "lesson Pad-ding",
        '"Pad-ding" cannot be the name of this lesson. Write',
    ),
    "an exercise's name": (
        "exercise 06 2nd",
        '"2nd" cannot be the name of this exercise. Write',
    ),
    "a word of Python's": (
        "exercise 06 lambda",
        '"lambda" cannot be the name of this exercise',
    ),
    "a function of Python's": (
        "exercise 06 sum",
        '"sum" cannot be the name of this exercise',
    ),
    "a lesson that there is": (
        "lesson padding",
        "There is a lesson 06_padding already",
    ),
    "a lesson of ours": ("lesson collectives", "There is a lesson 02_collectives"),
    "an exercise that there is": (
        "exercise 06 center",
        'already uses the name "center"',
    ),
    "a name of the package": ("exercise 06 observe", 'already uses the name "observe"'),
    "an unknown lesson": (
        "exercise 09 scale",
        'There is no lesson "09". In FOLDER: 06_padding. '
        "Make one: python -m grader new lesson NAME --folder FOLDER",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_made_is_said_in_one_line(what, folder, capsys):
    words, said = REFUSED[what]
    before = files(folder)
    assert main(["new", *words.split(), "--folder", str(folder)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said.replace("FOLDER", str(folder)) in line
    assert files(folder) == before


def test_private_lessons_stay_out_of_the_repository():
    for folder in (ROOT, ROOT / "mine"):
        with pytest.raises(CourseError, match="in the course's repository"):
            new_lesson("padding", folder)
    assert not (ROOT / "mine").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CourseError, match="is a file"):
        new_lesson("padding", tmp_path / "file")


def test_the_command_says_what_it_wrote_and_what_comes_next(tmp_path):
    own = str(tmp_path / "own")
    _, lines = printed(main, ["new", "lesson", "padding", "--folder", own])
    assert lines == [
        f"wrote {own}/solutions/06_padding.py",
        f"wrote {own}/solutions/checks/06_padding.py",
        f"Next: python -m grader new exercise 06 NAME --folder {own}",
    ]
    _, lines = printed(main, ["new", "exercise", "06", "center", "--folder", own])
    assert lines[-1] == f"Next: python -m grader build --folder {own}"


def test_a_folder_without_lessons_says_how_to_begin(tmp_path, capsys):
    assert main(["build", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"{tmp_path} holds no lesson. Write one: "
        f"python -m grader new lesson NAME --folder {tmp_path}\n"
    )


def test_a_build_tries_only_what_was_added_to_a_lesson_of_ours(tmp_path):
    """Our own build has proven the rest; where any of it was changed, all is tried."""
    path = new_exercise("01", "mean_gap", tmp_path / "own")[0]
    lesson = read(tmp_path / "own")[path.stem]
    proven, tried = building.proven_by_ours(path, lesson)
    others = {cell.id for name, cell in checks(lesson).items() if name != "mean_gap"}
    assert {*proven} == others and all(proven.values())
    new = {one.exercise for one in answers_to(path) if one not in tried}
    assert new == {"mean_gap"}
    demo = next(one for one in lesson.cells if one.source.startswith("import"))
    demo.source += "\nADDED = 1"
    assert building.proven_by_ours(path, lesson) == ({}, set())
    demo.source = demo.source.removesuffix("\nADDED = 1")
    checks_of_it = path.parent / "checks" / path.name
    text = checks_of_it.read_text()
    checks_of_it.write_text(text.replace("def cases_of_", "def more_cases_of_", 1))
    assert building.proven_by_ours(path, lesson) == ({}, set())
