"""What a person decides in the formgrader is one number everywhere."""

import csv
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup
from classes import RIGHT, WRONG, hand_in, make_class, printed
from pretended import (
    NAME,
    decide,
    grade,
    gradebook_of,
    page,
    pretended,
    regrade,
    report,
    submit,
)

from coursekit.outcomes import BROKEN, HOLDS, StatementResult
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.final_result import final_result
from grader.classroom.gradebook import Entry, ExerciseScore
from grader.classroom.purge import purge
from grader.results import ExerciseResult, Outcome, Result, Status

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture
COMMENT = "Your <b>idea</b> is right;\nonly the case 3 is not."
EARLIER = "A person gave the points for double to an earlier file."


def words(html):
    return " ".join(BeautifulSoup(html, "html.parser").get_text(" ").split())


@pytest.fixture
def folder(tmp_path):
    """A class of two: ada is right, bob got one of two exercises wrong."""
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    submit(tmp_path, "bob", **WRONG)
    grade(tmp_path)
    return tmp_path


def exported(folder, student):
    printed(export, folder / "class")
    with open(
        folder / "class" / "grading" / "grades.csv", encoding="utf-8-sig", newline=""
    ) as file:
        [row] = [row for row in csv.DictReader(file) if student in row.values()]
    return row


def explained(folder, student):
    return printed(explain, folder / "class", student, "1")[1]


def test_a_score_and_a_comment_are_on_the_page_in_the_report_and_in_exports(folder):
    assert "2 of 3 points" in words(page(folder, "bob"))
    decide(folder, "bob", "double", 0.5, COMMENT)
    grade(folder)
    said = words(page(folder, "bob"))
    assert "2.5 of 3 points" in said and "double Partly right 0.5 of 1 point" in said
    assert "Decided by a person: 0.5 of 1 (the checks gave 0)." in said
    assert "Your <b>idea</b> is right; only the case 3 is not." in said
    assert "<b>idea" not in page(folder, "bob")
    said = words(report(folder))
    assert "Median 2.75, mean 2.75, of 3 points" in said
    assert (
        "bob double: Decided by a person: 0.5 of 1 (the checks gave 0). Comment: "
        in said
    )
    lines = explained(folder, "bob")
    assert lines[0] == "bob 01_tiny: GRADED            2.5 of 3"
    assert (
        "double: Decided by a person: 0.5 of 1 (the checks gave 0). Comment:"
        in lines.text
    )
    row = exported(folder, "bob")
    assert row["score"] == "2.5" and "Decided by a person: 0.5 of 1" in row["note"]
    with gradebook_of(folder) as book:
        assert book.find_submission(NAME, "bob").score == 2.5


def test_scores_by_hand_decide_work_under_review(folder):
    submit(folder, "bob", **RIGHT | {"double": f"# settrace\n{RIGHT['double']}"})
    lines = grade(folder)
    assert any(line.startswith("A person must decide") for line in lines)
    _, lines = printed(export, folder / "class")
    assert any(line.startswith("without a score: bob 01_tiny") for line in lines)
    decide(folder, "bob", "double", 1)
    decide(folder, "bob", "negate", 0)
    lines = grade(folder)
    assert not any(line.startswith("A person must decide") for line in lines)
    said = words(page(folder, "bob"))
    assert "1 of 3 points" in said and "A person looked at this work" in said
    assert "For you to decide" not in words(report(folder))
    assert explained(folder, "bob")[0] == "bob 01_tiny: GRADED_WITH_NOTE  1 of 3"


def test_a_score_taken_back_leaves_no_trace_on_the_page(folder):
    before = page(folder, "bob")
    decide(folder, "bob", "double", 1)
    grade(folder)
    assert "3 of 3 points" in words(page(folder, "bob"))
    decide(folder, "bob", "double", None)
    grade(folder)
    assert page(folder, "bob") == before


def test_extra_credit_is_added_and_the_verdict_of_the_checks_stays(folder):
    decide(folder, "ada", "double", None, extra=0.5)
    grade(folder)
    said = words(page(folder, "ada"))
    assert "3 of 3 and 0.5 bonus points" in said
    assert "double Right 1.5 of 1 point" in said
    assert "Extra credit from a person: 0.5." in said
    assert exported(folder, "ada")["score"] == "3.5"


def test_a_score_for_an_earlier_file_stays_and_is_said_everywhere(folder):
    """Zero for a first file; a right one follows."""
    decide(folder, "bob", "double", 0)
    grade(folder)
    submit(folder, "bob", **RIGHT)
    lines = grade(folder)
    assert f"for a person: bob {NAME}: {EARLIER}" in lines.text
    assert "bob 01_tiny  GRADED" in lines.text
    assert "2 of 3 points" in words(page(folder, "bob"))
    assert exported(folder, "bob")["score"] == "2"
    for text in (words(page(folder, "bob")), words(report(folder))):
        assert EARLIER in text
    assert EARLIER in explained(folder, "bob").text
    assert EARLIER in exported(folder, "bob")["note"]
    assert EARLIER in grade(folder).text
    regrade(folder, "bob", apply=True)
    assert EARLIER in words(page(folder, "bob"))
    with gradebook_of(folder) as book:  # as the formgrader lists it
        assert book.find_submission(NAME, "bob").needs_manual_grade


def test_a_score_entered_again_belongs_to_the_newest_file(folder):
    decide(folder, "bob", "double", 0)
    grade(folder)
    submit(folder, "bob", **RIGHT)
    grade(folder)
    decide(folder, "bob", "double", 0)
    assert EARLIER not in grade(folder).text
    said = words(page(folder, "bob"))
    assert "2 of 3 points" in said and EARLIER not in said
    assert "Decided by a person: 0 of 1 (the checks gave 1)." in said


def test_another_grading_of_the_same_file_keeps_a_decision_as_it_is(folder):
    decide(folder, "bob", "double", 1)
    path = folder / "class/source" / NAME / "coursekit/checks" / f"{NAME}.py"
    path.write_text(path.read_text() + "\n# mended\n")
    assert EARLIER not in grade(folder).text
    assert "3 of 3 points" in words(page(folder, "bob"))


def test_a_newer_file_that_earns_less_counts_and_both_results_are_listed(folder):
    submit(folder, "ada", **WRONG)
    lines = grade(folder)
    said = "The newest file counts and earns 2 points; an earlier one earned 3."
    assert f"for a person: ada {NAME}: {said}" in lines
    assert "2 of 3 points" in words(page(folder, "ada"))
    assert said in words(report(folder)) and said in explained(folder, "ada").text
    assert exported(folder, "ada")["score"] == "2"
    assert f"for a person: ada {NAME}: {said}" in grade(folder)
    submit(folder, "ada", **RIGHT)
    assert said not in grade(folder).text


def test_a_decision_settles_a_newer_file_that_earns_less(folder):
    submit(folder, "ada", **WRONG)
    grade(folder)
    decide(folder, "ada", "double", 1)
    assert "for a person" not in grade(folder).text
    assert exported(folder, "ada")["score"] == "3"


@pytest.mark.parametrize("data", [b"<html>Log in</html>", b""], ids=["a page", "empty"])
def test_a_file_that_cannot_be_graded_replaces_no_result(folder, data):
    hand_in(folder, "ada", data)
    lines = grade(folder)
    assert "GRADED                2" in lines.text
    said = "The newest file cannot be graded, so an earlier one counts."
    assert f"for a person: ada {NAME}: {said}" in lines.text
    for text in (words(page(folder, "ada")), words(report(folder))):
        assert said in text
    assert "3 of 3 points" in words(page(folder, "ada"))
    assert exported(folder, "ada")["score"] == "3"
    with gradebook_of(folder) as book:
        assert book.find_submission(NAME, "ada").score == 3
    again = grade(folder)
    assert again[0].startswith("2 submissions: 2 graded before, 0 to grade")
    assert said in again.text
    assert "cannot be graded: nothing changes" in regrade(folder, "ada").text
    regrade(folder, "ada", apply=True)
    assert exported(folder, "ada")["score"] == "3"
    submit(folder, "ada", **WRONG)
    grade(folder)
    assert said not in page(folder, "ada") and exported(folder, "ada")["score"] == "2"


def test_purge_removes_what_is_kept_of_a_learners_other_files(folder):
    submit(folder, "ada", **WRONG)
    grade(folder)
    hand_in(folder, "ada", b"<html>")
    grade(folder)
    printed(purge, folder / "class", ["ada"], apply=True)
    kept = [*(folder / "class" / "grading" / "results").rglob("*.json")]
    assert len(kept) == 1  # bob's


OPEN = ExerciseResult("double", Outcome.FAILED, 0, 1, worth=1)


def test_marks_for_other_exercises_decide_nothing():
    """As after a new version of a lesson, which renamed one."""
    result = Result(NAME, (OPEN,), Status.NEEDS_REVIEW)
    assert final_result(result, Entry({"renamed": ExerciseScore(None, 1.0)})) == result


def test_a_person_who_read_an_unreadable_file_gives_its_points():
    result = Result(NAME, (OPEN,), Status.STUDENT_ERROR, reasons=("It is empty.",))
    final = final_result(result, Entry({"double": ExerciseScore(0.0, 1.0)}))
    assert (final.status, final.score) == (Status.GRADED_WITH_NOTE, 1)
    assert final.notes[0] == "It is empty." and not final.reasons
    untouched = final_result(result, Entry({"double": ExerciseScore(0.0, None)}))
    assert untouched == result


@pytest.mark.parametrize("standing", [HOLDS, BROKEN])
def test_a_check_that_failed_by_itself_is_for_a_person_until_one_gives_points(standing):
    outcome = Outcome.PARTLY if standing == BROKEN else Outcome.BROKEN
    statement = StatementResult("of an array", False, 0.5, standing)
    broken = ExerciseResult("negative", outcome, 0.5, 1, 1, 0.5, (statement,))
    result = Result(NAME, (replace(OPEN, points=1), broken))
    final = final_result(result)
    assert (final.status, final.score) == (Status.GRADED, 1.5)
    assert final.to_review == (
        "The check of negative failed by itself: a person should give its points.",
    )
    decided = final_result(result, Entry({"negative": ExerciseScore(0.5, 1.0)}))
    assert (decided.score, decided.to_review) == (2, ())
