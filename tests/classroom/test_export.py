"""Exports are read by others: the same bytes each time, numbers, never a formula."""

import csv
import os
from pathlib import Path

import pytest
from classes import make_class, printed
from published import publish_result

from grader.classroom.export import export, write_csv
from grader.classroom.folder import Submission
from grader.classroom.spreadsheet import text_cell
from grader.results import ExerciseResult, Outcome, Result, Status

LUKASZ = "Bob, the \u0141ukasz"
NAMES = {"ada": "Ada Lovelace", "bob": LUKASZ}


def grade(student, lesson, score, possible, *notes, status=Status.GRADED, late=""):
    one = ExerciseResult("one", Outcome.PARTLY, score, possible)
    facts = (
        {"notes": notes} if status is not Status.STUDENT_ERROR else {"reasons": notes}
    )
    result = Result(lesson, (one,), status, late=late, **facts)
    return Submission(lesson, student, Path()), result


GRADES = [
    grade("bob", "02_mesh", 1, 10, status=Status.NEEDS_REVIEW),
    grade("bob", "01_pmap", 0.1 + 0.2, 5, "It was renamed.", late="2 days late"),
    grade("ada", "01_pmap", 5, 5),
    grade("cyd", "01_pmap", 0, 5, "It is empty.", status=Status.STUDENT_ERROR),
    grade("dan", "02_mesh", 0, 0, status=Status.INFRA_ERROR),
]


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "grades.csv"


def test_csv_has_a_row_per_grade_by_lesson_and_student(path):
    write_csv(path, dict(GRADES), NAMES)
    header, *found = rows(path)
    assert header == [
        *("student", "name", "lesson", "status", "score", "max_score", "late", "note")
    ]
    late = "This was submitted 2 days late."
    renamed = ["0.3", "5", late, "It was renamed."]
    assert found == [
        ["ada", "Ada Lovelace", "01_pmap", "GRADED", "5", "5", "", ""],
        ["bob", LUKASZ, "01_pmap", "GRADED", *renamed],
        ["cyd", "", "01_pmap", "STUDENT_ERROR", "0", "5", "", "It is empty."],
        ["bob", LUKASZ, "02_mesh", "NEEDS_REVIEW", "", "10", "", ""],
        ["dan", "", "02_mesh", "INFRA_ERROR", "", "0", "", ""],
    ]


def test_the_file_has_a_byte_order_mark(path):
    """Excel needs one to read UTF-8."""
    write_csv(path, dict(GRADES), NAMES)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")


def test_one_lesson_can_be_exported_alone(tmp_path):
    make_class(tmp_path)
    publish_result(tmp_path, "ada")
    path = tmp_path / "grades.csv"
    assert printed(export, tmp_path / "class", path, lesson="1")[0] == 0
    assert len(rows(path)) == 2
    with pytest.raises(ValueError, match='no lesson "2"'):
        export(tmp_path / "class", lesson="2")


def test_same_grades_in_any_order_give_the_same_bytes(path):
    contents = []
    for grades in (GRADES, GRADES[::-1]):
        write_csv(path, dict(grades), NAMES)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] and contents[0].endswith(b"\r\n")
    assert contents[0].count(b"\n") == contents[0].count(b"\r\n")


def test_no_grades_still_make_a_file_with_a_header(path):
    write_csv(path, {}, {})
    assert rows(path)


def test_disk_full_leaves_the_old_file_and_no_other(path, monkeypatch):
    path.write_text("old")

    def fail(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_csv(path, dict(GRADES), NAMES)
    assert [p.name for p in path.parent.iterdir()] == ["grades.csv"]
    assert path.read_text() == "old"


FORMULAS = [
    '=HYPERLINK("http://evil.example";"click")',
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\ttext",
    "\rtext",
    "\ntext",
    "  =1+1",
    "\u00a0=1+1",
    "\u3000=1+1",
    "\u200b=1+1",
    "\x00=1+1",
    "\x1b[31m=1+1",
    "\uff1d1+1",
    "\uff0b1+1",
    "\uff0d1+1",
    "\uff201+1",
    "\u22121+1",
    "=cmd|' /C calc'!A0",
    '","=1+1',
    "a;=1+1",
    "a; \t@SUM(A1);b",
    'a"\n=1+1',
]
SIGNS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20\u2212")


@pytest.mark.parametrize("formula", FORMULAS, ids=ascii)
def test_untrusted_text_is_never_a_formula(path, formula):
    one = grade(formula, formula, -1.5, 5, formula)
    write_csv(path, dict([one]), {formula: formula})
    cells = [cell for row in rows(path) for cell in row]
    assert "-1.5" in cells, "numbers stay numbers"
    cells.remove("-1.5")
    assert sum("1+1" in c or "SUM" in c or "text" in c or "=" in c for c in cells) >= 3
    for cell in cells:
        for part in cell.split(";"):
            assert not part.strip().startswith(SIGNS)
        assert not {"\t", "\r", "\n", "\x00"} & set(cell)


def test_apostrophe_comes_before_a_formula_and_nowhere_else():
    assert text_cell("=1+1") == "'=1+1"
    assert text_cell(" -1") == "' -1"
    assert text_cell("\ttext") == "' text"
    assert text_cell("a;=1") == "a;'=1"
    for plain in ("", "ada", "a=b", "a - b; c", "it's 1+1", "3", "x@y.org", "1;2"):
        assert text_cell(plain) == plain


def test_text_that_is_no_text_can_be_written(path):
    write_csv(path, dict([grade("ada", "01", 1, 1, "\ud800" * 9 + "a")]), {})
    assert rows(path)[1][-1] == "a"
    write_csv(path, dict([grade("ada", "01", 1, 1, "a" * 10**6)]), {})
    assert len(rows(path)[1][-1]) <= 2000
