"""Exports are read by others: the same bytes each time, numbers, never a formula."""

import csv
import os

import pytest
from classes import make_class, printed
from published import publish_result

from grader.classroom.export import (
    Grade,
    export,
    write_canvas,
    write_csv,
    write_moodle,
)
from grader.classroom.spreadsheet import text_cell
from grader.results import Status

LUKASZ = "Bob, the \u0141ukasz"
PEOPLE = {"ada": {"name": "Ada Lovelace"}, "bob": {"name": LUKASZ}}
GRADES = (
    Grade("bob", "02_mesh", Status.NEEDS_REVIEW, None, 10),
    Grade(
        *("bob", "01_pmap", Status.GRADED_WITH_NOTE, 0.1 + 0.2, 5, "It was renamed."),
        late="2 days",
    ),
    Grade("ada", "01_pmap", Status.GRADED, 5, 5),
    Grade("cyd", "01_pmap", Status.STUDENT_ERROR, 0, 5, "It is empty. Save it."),
    Grade("dan", "02_mesh", Status.INFRA_ERROR, None, 0),
)
WRITERS = {"csv": write_csv, "canvas": write_canvas, "moodle": write_moodle}


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "grades.csv"


def test_csv_has_a_row_per_grade_by_lesson_and_student(path):
    write_csv(path, GRADES, PEOPLE)
    header, *found = rows(path)
    assert header == [
        *("student", "name", "lesson", "status", "score", "max_score", "late", "note")
    ]
    renamed = ["0.3", "5", "2 days", "It was renamed."]
    assert found == [
        ["ada", "Ada Lovelace", "01_pmap", "GRADED", "5", "5", "", ""],
        ["bob", LUKASZ, "01_pmap", "GRADED_WITH_NOTE", *renamed],
        ["cyd", "", "01_pmap", "STUDENT_ERROR", "0", "5", "", "It is empty. Save it."],
        ["bob", LUKASZ, "02_mesh", "NEEDS_REVIEW", "", "10", "", ""],
        ["dan", "", "02_mesh", "INFRA_ERROR", "", "0", "", ""],
    ]


def test_only_the_file_for_spreadsheets_has_a_byte_order_mark(path):
    """Excel needs one to read UTF-8; Canvas takes it for a part of the first name."""
    marked = {}
    for kind, write in WRITERS.items():
        write(path, GRADES[:1], PEOPLE)
        marked[kind] = path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert marked == {"csv": True, "canvas": False, "moodle": False}


def test_canvas_has_a_column_per_lesson_and_no_zero_for_no_score(path):
    write_canvas(path, GRADES, PEOPLE)
    assert rows(path) == [
        [
            "Student",
            "ID",
            "SIS User ID",
            "SIS Login ID",
            "Section",
            "01_pmap",
            "02_mesh",
        ],
        ["    Points Possible", "", "", "", "", "5", "10"],
        ["Ada Lovelace", "", "ada", "ada", "", "5", ""],
        [LUKASZ, "", "bob", "bob", "", "0.3", ""],
        ["", "", "cyd", "cyd", "", "0", ""],
        ["", "", "dan", "dan", "", "", ""],
    ]


def test_moodle_has_a_file_per_lesson(path):
    written = write_moodle(path, GRADES, PEOPLE)
    assert [p.name for p in written] == ["grades-01_pmap.csv", "grades-02_mesh.csv"]
    assert not path.exists()
    header = ["Identifier", "Full name", "Grade", "Maximum grade"]
    header += ["Last modified (grade)", "Feedback comments"]
    assert rows(written[0]) == [
        header,
        ["ada", "Ada Lovelace", "5", "5", "", ""],
        ["bob", LUKASZ, "0.3", "5", "", "2 days; It was renamed."],
        ["cyd", "", "0", "5", "", "It is empty. Save it."],
    ]
    assert rows(written[1])[1:] == [
        ["bob", LUKASZ, "", "10", "", ""],
        ["dan", "", "", "0", "", ""],
    ]


def test_moodle_file_of_one_lesson_has_the_name_that_was_asked_for(path):
    grade = Grade("Participant 12345", "01_pmap", Status.GRADED, 2.5, 5)
    assert write_moodle(path, [grade], {}) == [path]
    assert rows(path)[1] == ["Participant 12345", "", "2.5", "5", "", ""]


def test_moodle_comment_is_text_where_html_is_read(path):
    note = '<img src="http://example.org"> &amp; x <= 3 & y < 4; </b>'
    write_moodle(path, [Grade("ada", "01", Status.GRADED, 1, 1, note)], {})
    comment = rows(path)[1][-1]
    shown = '&lt;img src="http://example.org"> &amp;amp; x <= 3 & y < 4; &lt;/b>'
    assert comment == shown


def test_ids_of_the_roster_are_in_their_own_columns(path):
    canvas = {"canvas_id": "7", "sis_login_id": "lovelace", "section": "A"}
    people = {"ada": {"name": "Lovelace, Ada", **canvas, "moodle_id": "12345"}}
    write_canvas(path, GRADES[2:3], people)
    assert rows(path)[2] == ["Lovelace, Ada", "7", "", "lovelace", "A", "5"]
    write_moodle(path, GRADES[2:3], people)
    assert rows(path)[1][:3] == ["Participant 12345", "Lovelace, Ada", "5"]


@pytest.mark.parametrize("kind", ["canvas", "moodle"])
def test_bonus_points_are_capped_unless_they_are_to_be_kept(tmp_path, kind):
    make_class(tmp_path)
    publish_result(tmp_path, "ada", negate=3.5)
    publish_result(tmp_path, "bob", negate=1)
    folder, path = tmp_path / "class", tmp_path / "grades.csv"
    _, lines = printed(export, folder, kind, path)
    assert [row[-1 if kind == "canvas" else 2] for row in rows(path)[-2:]] == ["3", "2"]
    assert "01_tiny: capped at the 3 points possible: ada (4.5)" in lines
    _, lines = printed(export, folder, kind, path, keep_bonus=True)
    assert [row[-1 if kind == "canvas" else 2] for row in rows(path)[-2:]] == [
        "4.5",
        "2",
    ]
    assert "capped at" not in lines.text
    printed(export, folder, "csv", path)
    assert [row[4:6] for row in rows(path)[1:]] == [["4.5", "3"], ["2", "3"]]


def test_one_lesson_can_be_exported_alone(tmp_path):
    make_class(tmp_path)
    publish_result(tmp_path, "ada")
    path = tmp_path / "grades.csv"
    assert printed(export, tmp_path / "class", "csv", path, lesson="1")[0] == 0
    assert len(rows(path)) == 2
    with pytest.raises(ValueError, match='no lesson "2"'):
        export(tmp_path / "class", lesson="2")


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_same_grades_in_any_order_give_the_same_bytes(tmp_path, write):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, grades in zip(folders, (GRADES, GRADES[::-1]), strict=True):
        folder.mkdir()
        write(folder / "grades.csv", iter(grades), PEOPLE)
    contents = [{p.name: p.read_bytes() for p in f.iterdir()} for f in folders]
    assert contents[0] == contents[1]
    for content in contents[0].values():
        assert content.endswith(b"\r\n")
        assert content.count(b"\n") == content.count(b"\r\n")


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_grades_still_make_a_file_with_a_header(path, write):
    write(path, [], {})
    assert rows(path)


def test_disk_full_leaves_the_old_file_and_no_other(path, monkeypatch):
    path.write_text("old")

    def fail(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_csv(path, GRADES, PEOPLE)
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
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_untrusted_text_is_never_a_formula(path, write, formula):
    grade = Grade(formula, formula, Status.GRADED, -1.5, 5, formula)
    write(path, [grade], {formula: {"name": formula}})
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
    write_csv(path, [Grade("ada", "01", Status.GRADED, 1, 1, "\ud800" * 9 + "a")], {})
    assert rows(path)[1][-1] == "a"
    write_csv(path, [Grade("ada", "01", Status.GRADED, 1, 1, "a" * 10**6)], {})
    assert len(rows(path)[1][-1]) <= 2000
