"""A regrade can be limited, says from the start what it does, and applies no more."""

import dataclasses

import pretended as pretended_module
import pytest
import tiny
from classes import RIGHT, WRONG, make_class
from pretended import (
    NAME,
    decide,
    grade,
    gradebook_of,
    page,
    pretended,
    regrade,
    submit,
)

from grader.__main__ import main
from grader.classroom import grade as grading
from grader.lessons.release import checks
from grader.results import Status

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


def test_a_changed_submission_alone_is_graded_and_its_difference_listed(folder):
    submit(folder, "bob", **RIGHT | {"double": f"{RIGHT['double']}  # better now"})
    lines = grade(folder)
    assert "3 submissions: 2 graded before, 1 to grade" in lines.text
    assert "bob 01_tiny: double: wrong, 0 -> right, 1" in lines


def test_differences_are_listed_before_any_is_applied_and_a_persons_scores_stay(
    folder, monkeypatch
):
    decide(folder, "bob", "double", 0.5)
    mend(folder, monkeypatch, "negate")
    before = page(folder, "bob")
    lines = regrade(folder, "ada", "bob")
    assert "ada 01_tiny: negate: right, 2 -> wrong, 0" in lines
    assert "2 graded again, 2 differ." in lines
    assert lines[-1].startswith("Nothing was written.")
    assert page(folder, "bob") == before
    regrade(folder, "ada", "bob", apply=True)
    assert "1 of 3 points" in page(folder, "ada")
    assert "0.5 of 3 points" in page(folder, "bob")
    with gradebook_of(folder) as book:
        grades = book.find_submission(NAME, "bob").notebooks[0].grades
        assert [one.auto_score for one in grades] == [0, 0]


def test_an_exercise_limits_who_is_graded_and_what_is_listed(folder, monkeypatch):
    mend(folder, monkeypatch, "negate")
    lines = regrade(folder, exercise="negate")
    assert lines[0] == "2 submissions to grade again."
    assert [line for line in lines if "->" in line] == [
        "ada 01_tiny: negate: right, 2 -> wrong, 0",
        "bob 01_tiny: negate: right, 2 -> wrong, 0",
    ]
    regrade(folder, exercise="negate", apply=True)
    assert "1 of 3 points" in page(folder, "ada")
    assert "0 of 3 points" in page(folder, "bob")


def test_a_result_that_differs_elsewhere_is_named_and_not_applied(folder, monkeypatch):
    mend(folder, monkeypatch, "double", "negate")
    lines = regrade(folder, exercise="negate", apply=True)
    more = "not applied, since it also differs in double: right, 1 -> wrong, 0."
    assert f"ada 01_tiny: {more} Regrade it without --exercise" in lines
    assert lines[-1] == "1 of the 2 applied."
    assert "bob 01_tiny: negate: right, 2 -> wrong, 0" in lines
    assert "3 of 3 points" in page(folder, "ada")
    assert "0 of 3 points" in page(folder, "bob")


def mend_negate(folder):
    """Changes nothing but the check of one exercise."""
    path = folder / "class/source" / NAME / "coursekit/checks" / f"{NAME}.py"
    one = "observe(negate, 3), -3", "observe(negate, 4), -4"
    path.write_text(tiny.changed(path.read_text(), one))


def checked(monkeypatch):
    """Returns a list that gets which exercises are checked, each time any are."""
    seen, real = [], grading.grade_jobs

    def grade_jobs(executor, jobs):
        seen.append((" ".join(checks(executor.lessons[NAME])), len(jobs)))
        return real(executor, jobs)

    monkeypatch.setattr(grading, "grade_jobs", grade_jobs)
    return seen


def test_a_mended_check_alone_is_run_again_and_applied(folder, monkeypatch, capsys):
    mend_negate(folder)
    monkeypatch.setitem(RIGHT, "negate", "no such text")
    seen = checked(monkeypatch)
    lines = regrade(folder, exercise="negate", apply=True)
    assert seen == [("negate", 2)]
    assert "ada 01_tiny: negate: right, 2 -> wrong, 0" in lines
    assert "1 of 3 points" in page(folder, "ada")
    # Nothing is left for `grade` but who did not try it.
    assert "3 submissions: 2 graded before, 1 to grade" in grade(folder).text


def test_who_submitted_since_is_graded_as_a_whole(folder, monkeypatch):
    mend_negate(folder)
    submit(folder, "bob", **RIGHT)
    seen = checked(monkeypatch)
    regrade(folder, exercise="negate", apply=True)
    assert sorted(seen) == [("double negate", 1), ("negate", 1)]
    assert "3 of 3 points" in page(folder, "ada")


def test_a_result_that_counts_no_more_is_not_applied(folder, monkeypatch):
    """The other exercise's evidence of tampering is not forgotten."""
    submit(folder, "ada", double="# settrace\n" + RIGHT["double"], negate="x = 1")
    grade(folder)
    mend_negate(folder)
    monkeypatch.setattr(grading, "has_tried", lambda *_: True)
    pretended_result = pretended_module.result_of

    def result_of(submitted, lesson):
        found = pretended_result(submitted, lesson)
        return dataclasses.replace(found, status=Status.GRADED)

    monkeypatch.setattr(pretended_module, "result_of", result_of)
    lines = regrade(folder, "ada", exercise="negate", apply=True)
    said = "not applied, since it also differs in status NEEDS_REVIEW -> GRADED."
    assert said in lines.text
    assert "A person will look at it" in page(folder, "ada")


def test_a_lesson_limits_what_is_graded(folder):
    assert regrade(folder, lesson="01")[0] == "3 submissions to grade again."
    assert regrade(folder, "ada", lesson=NAME)[0] == "1 submissions to grade again."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lesson": "7"}, r'no lesson "7". It has: 01_tiny'),
        ({"exercise": "half"}, r'no exercise "half". There are: double, negate'),
    ],
)
def test_what_is_not_there_is_named(folder, options, said):
    with pytest.raises(ValueError, match=said):
        regrade(folder, **options)


def test_a_learner_without_a_submission_is_named(folder):
    with pytest.raises(ValueError, match='There is no "zoe" in'):
        regrade(folder, "ada", "zoe", lesson="1")


def test_the_command_line_takes_both(folder, capsys):
    words = ["regrade", str(folder / "class"), "--lesson", "1", "--exercise", "half"]
    assert main(words) == 2
    assert 'There is no exercise "half"' in capsys.readouterr().err


def test_changed_points_are_no_change_of_the_learner(folder):
    path = folder / "class/source" / NAME / f"{NAME}.ipynb"
    one = ('check(\\"double\\")', 'check(\\"double\\", points=4)')
    path.write_text(tiny.changed(path.read_text(), one))
    lines = grade(folder)
    assert (
        "note: 01_tiny: the line of double's check says points=4, but its nbgrader "
        "metadata 1, which counts. Make them equal in source/."
    ) in lines
    assert "GRADED                3" in lines.text
    assert "changed" not in page(folder, "ada")
