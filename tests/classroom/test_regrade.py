"""A regrade can be limited, says from the start what it does, and applies no more."""

import pytest
import tiny
from classes import RIGHT, WRONG, make_class
from pretended import NAME, grade, page, pretended, regrade, submit

from grader.__main__ import main
from grader.classroom import grade as grading

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture


@pytest.fixture
def folder(tmp_path):
    """A class of three: cleo did not try the second exercise."""
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    submit(tmp_path, "bob", **WRONG)
    submit(tmp_path, "cleo", double=RIGHT["double"])
    grade(tmp_path)
    return tmp_path


def mend(folder, monkeypatch, *names):
    """Makes another version of the checks, for which `names` are wrong for all."""
    path = folder / "class/source" / NAME / "coursekit/checks" / f"{NAME}.py"
    path.write_text(path.read_text() + "\n# mended\n")
    for name in names:
        monkeypatch.setitem(RIGHT, name, "no such text")


def test_the_number_is_said_before_anything_is_graded(folder, monkeypatch, capsys):
    def grade_jobs(executor, jobs):
        assert "3 submissions to grade again." in capsys.readouterr().out
        yield from ()

    monkeypatch.setattr(grading, "grade_jobs", grade_jobs)
    grading.regrade(folder / "class")


def test_a_bar_is_shown_before_the_first_result(folder, monkeypatch, capsys):
    def grade_jobs(executor, jobs):
        assert "0/3" in capsys.readouterr().err
        yield from ()

    monkeypatch.setattr(grading, "grade_jobs", grade_jobs)
    grading.regrade(folder / "class")


def test_differences_are_listed_and_applied_on_demand(folder, monkeypatch):
    mend(folder, monkeypatch, "negate")
    lines = regrade(folder)
    assert [line for line in lines if "->" in line] == [
        "ada 01_tiny: negate: right, 2 -> wrong, 0",
        "bob 01_tiny: negate: right, 2 -> wrong, 0",
    ]
    assert "3 of 3 points" in page(folder, "ada")
    regrade(folder, apply=True)
    assert "1 of 3 points" in page(folder, "ada")
    assert "0 of 3 points" in page(folder, "bob")


def test_a_lesson_limits_what_is_graded(folder):
    assert regrade(folder, lesson="01")[0] == "3 submissions to grade again."
    assert regrade(folder, "ada", lesson=NAME)[0] == "1 submissions to grade again."


def test_what_is_not_there_is_named(folder, capsys):
    assert main(["regrade", str(folder / "class"), "--lesson", "7"]) == 2
    assert 'no lesson "7". It has: 01_tiny' in capsys.readouterr().err
    with pytest.raises(ValueError, match='"zoe" submitted nothing for 1 in'):
        regrade(folder, "ada", "zoe", lesson="1")


def test_changed_points_are_no_change_of_the_learner(folder):
    path = folder / "class/source" / NAME / f"{NAME}.ipynb"
    one = ('check(\\"double\\")', 'check(\\"double\\", points=4)')
    path.write_text(tiny.changed(path.read_text(), one))
    assert "GRADED                3" in grade(folder).text
    assert "changed" not in page(folder, "ada")
