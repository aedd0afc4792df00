"""Grades go into the file that the LMS exported; all else in it stays as it was.

The gradebook and the worksheet are as Canvas and Moodle write them. Each class has the
tiny lesson, of 3 points.
"""

import csv
import re

import pytest
import tiny
from classes import make_class, printed
from published import add_lesson, publish_result

from grader.__main__ import main
from grader.classroom.export import export
from grader.results import Status

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Quiz 1 (11),Lesson 1 (12345),Final Score
,,,,,,Manual Posting,
    Points Possible,,,,,10.00,3.00,(read only)
"Lovelace, Ada",101,20260001,alovelace,Monday,9.00,,90.0
"Babbage, Charles",102,20260002,cbabbage,"Monday, Friday",=1+1,1.00,
"Noether, Emmy",103,20260003,enoether,Friday,,EX,
"Hopper, Grace",104,20260004,ghopper,Friday,7.50,2.00,
"Student, Test",105,,5f0c,Monday,,,
"""
MOODLE = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade",'
    '"Grade can be changed","Last modified (submission)","Last modified (grade)",'
    '"Feedback comments"\n'
    '"Participant 12345","Ada Lovelace",ada@example.edu,"Submitted for grading - ",,'
    '3.00,Yes,"Wednesday, 10 June 2026, 2:14 PM",-,\n'
    '"Participant 12346","Charles Babbage",cb@example.edu,"Submitted for grading - ",'
    '1.00,3.00,Yes,"Wednesday, 10 June 2026, 2:15 PM",-,"Well done"\n'
    '"Participant 12347","Emmy Noether",en@example.edu,"No submission - ",,'
    "3.00,Yes,-,-,\n"
)


@pytest.fixture
def folder(tmp_path):
    make_class(tmp_path)
    return tmp_path


def fill(folder, text, **options):
    """Returns the exit status, what was printed, and the lines that were written."""
    template = folder / "template.csv"
    template.write_bytes(text.encode())
    to = folder / "filled.csv"
    status, lines = printed(export, folder / "class", to, template=template, **options)
    assert template.read_bytes() == text.encode()
    return status, lines.text, rows(to)


def rows(path):
    return [*csv.reader(path.read_text(encoding="utf-8").splitlines())]


def changes(text, found):
    """Lists (row, column, cell) of what differs from the template."""
    before = [*csv.reader(text.splitlines())]
    assert [len(row) for row in before] == [len(row) for row in found]
    return [
        (i, j, cell)
        for i, row in enumerate(found)
        for j, cell in enumerate(row)
        if cell != before[i][j]
    ]


@pytest.mark.parametrize(
    "ids",
    [
        ("101", "102", "103"),
        ("alovelace", "cbabbage", "enoether"),
        ("20260001", "20260002", "20260003"),
    ],
    ids=["Canvas's", "logins", "SIS"],
)
def test_only_the_lessons_column_of_canvas_changes(folder, ids):
    ada, charles, emmy = ids
    publish_result(folder, ada, negate=1.5)
    publish_result(folder, charles, double=0)
    publish_result(folder, emmy)
    status, said, found = fill(folder, CANVAS)
    assert status == 0
    assert changes(CANVAS, found) == [(3, 6, "2.5"), (4, 6, "2")]
    assert '01_tiny -> "Lesson 1 (12345)"' in said
    assert f"left as it was: {emmy} 01_tiny, excused" in said
    assert "without a grade for 01_tiny:\n    Hopper, Grace\n" in said


def test_bonus_points_are_capped_at_what_canvas_has_unless_kept(folder):
    publish_result(folder, "101", negate=6)
    _, said, found = fill(folder, CANVAS)
    assert changes(CANVAS, found) == [(3, 6, "3")]
    assert "101 01_tiny: 7 capped at the 3 points possible; --bonus keep" in said
    _, said, found = fill(folder, CANVAS, bonus="keep")
    assert changes(CANVAS, found) == [(3, 6, "7")] and "capped at" not in said


def test_other_points_possible_in_canvas_are_said(folder):
    publish_result(folder, "101", negate=1)
    _, said, found = fill(folder, CANVAS.replace("10.00,3.00", "10.00,100.00"))
    assert found[3][6] == "2"
    assert '"Lesson 1 (12345)" has 100 points possible, the lesson' in said


def test_graded_learners_who_are_not_in_the_file_fail_the_export(folder):
    publish_result(folder, "101")
    publish_result(folder, "777")
    status, said, found = fill(folder, CANVAS)
    assert status == 1 and "not in template.csv: 777 01_tiny" in said
    assert changes(CANVAS, found) == [(3, 6, "3")]


def test_an_undecided_score_leaves_the_cell_as_it_was(folder):
    publish_result(folder, "104", status=Status.NEEDS_REVIEW)
    status, said, found = fill(folder, CANVAS)
    assert status == 0 and changes(CANVAS, found) == []
    assert "without a score: 104 01_tiny (NEEDS_REVIEW" in said


def test_a_file_with_semicolons_and_a_byte_order_mark_stays_one(folder):
    publish_result(folder, "101", negate=1.5)
    text = "Student;ID;SIS Login ID;Section;Lesson 1 (5)\r\n    Points Possible;;;;3,00"
    text = f"\ufeff{text}\r\nŁukasz;101;ada;A;\r\n"
    path = folder / "canvas.csv"
    path.write_bytes(text.encode())
    printed(export, folder / "class", template=path)
    written = folder / "class" / "grading" / "grades-canvas.csv"
    assert written.read_bytes().decode() == text.replace("A;\r", "A;2,5\r")


@pytest.mark.parametrize(
    ("template", "row", "place"), [(CANVAS, 3, 6), (MOODLE, 1, 4)], ids=["C", "M"]
)
def test_numbers_are_written_as_the_file_writes_them(folder, template, row, place):
    for student in ("101", "12345"):
        publish_result(folder, student, negate=1.5)
    commas = re.sub(r"(?<=,)(\d+)\.(\d\d?)(?=[,\n])", r'"\1,\2"', template)
    for text, cell in ((template, "2.5"), (commas, "2,5")):
        assert fill(folder, text)[2][row][place] == cell


def test_a_learner_who_is_in_the_file_twice_is_filled_in_nowhere(folder):
    publish_result(folder, "101")
    publish_result(folder, "102", double=0)
    again = '"Lovelace, Ada",101,20260001,alovelace,Friday,9.00,2.00,90.0\n'
    status, said, found = fill(folder, CANVAS + again)
    assert status == 1 and changes(CANVAS + again, found) == [(4, 6, "2")]
    line = (
        "101 is in template.csv twice, in lines 4 and 9: nothing was filled in there."
    )
    assert line in said.splitlines()
    assert "not in template.csv" not in said and "Ada" not in said
    assert "filled.csv: 1 grades" in said


def test_so_is_one_in_moodles_worksheet_and_one_without_a_grade_is_no_problem(folder):
    publish_result(folder, "12345")
    lines = MOODLE.splitlines(keepends=True)
    status, said, found = fill(folder, MOODLE + lines[1])
    assert status == 1 and "12345 is in template.csv twice, in lines 2 and 5" in said
    assert changes(MOODLE + lines[1], found) == []
    status, said, found = fill(folder, MOODLE + lines[3])
    assert status == 0 and said.count("Emmy Noether") == 1
    assert changes(MOODLE + lines[3], found) == [(1, 4, "3")]


def test_two_learners_of_one_name_are_two(folder):
    publish_result(folder, "101")
    publish_result(folder, "106", double=0)
    text = CANVAS + '"Lovelace, Ada",106,20260006,alovelace2,Friday,9.00,,90.0\n'
    status, _, found = fill(folder, text)
    assert status == 0 and changes(text, found) == [(3, 6, "3"), (8, 6, "2")]


def test_a_grade_that_moodle_has_locked_stays_and_is_said(folder):
    publish_result(folder, "12345")
    publish_result(folder, "12346", double=0, negate=1)
    text = MOODLE.replace("3.00,Yes", "3.00,No")
    status, said, found = fill(folder, text)
    assert status == 0 and changes(text, found) == []
    assert "left as it was: 12345 01_tiny, whose grade Moodle has locked" in said
    assert "left as it was: 12346" not in said  # it has the same grade


def test_moodles_worksheet_may_lack_the_maximum_grade(folder):
    publish_result(folder, "12345", negate=6)
    text = MOODLE.replace(',"Maximum Grade"', "").replace("3.00,Yes", "Yes")
    status, said, found = fill(folder, text)
    assert status == 0 and found[1][4] == "3"
    assert "12345 01_tiny: 7 capped at the 3 points possible" in said


def test_a_worksheet_of_an_assignment_with_a_scale_is_refused(folder):
    publish_result(folder, "12345")
    with pytest.raises(ValueError, match="graded by a scale, not by points"):
        fill(folder, MOODLE.replace("Maximum Grade", "Scale"))
    assert not (folder / "filled.csv").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CANVAS.replace("Lesson 1", "Lesson 1 Final Grade"), "contains .Final Grade"),
        (CANVAS.replace("Lesson 1", "Current Points 01_tiny"), "contains .Current P"),
        (CANVAS.replace("10.00,3.00", "10.00,(read only)"), "it is read only there"),
    ],
)
def test_a_column_that_canvas_would_ignore_is_refused(folder, text, why):
    publish_result(folder, "101")
    with pytest.raises(ValueError, match=f"ignores the column .* since .*{why}"):
        fill(folder, text)
    assert not (folder / "filled.csv").exists()


@pytest.mark.parametrize(
    "heading",
    [
        "Lesson 1 (5)",
        "lesson 01: pmap (5)",
        "01_tiny (5)",
        "01 (5)",
        "A 01 tiny (5)",
    ],
)
def test_a_column_is_found_by_the_lessons_name_or_number(folder, heading):
    publish_result(folder, "101", negate=1)
    text = CANVAS.replace("Lesson 1 (12345)", heading)
    assert fill(folder, text)[2][3][6] == "2"


@pytest.mark.parametrize(
    "named", ["Homework 1 (5)", "Homework 1", "5", " Homework 1 (5)"]
)
def test_a_column_with_another_name_is_asked_for(folder, capsys, named):
    publish_result(folder, "101", negate=1)
    text = CANVAS.replace("Lesson 1 (12345)", "Homework 1 (5)")
    with pytest.raises(
        ValueError, match=r"assignments: .*11.*Homework 1 \(5\)"
    ) as error:
        fill(folder, text)
    assert '--assignment "01_tiny=TITLE (NUMBER)"' in str(error.value)
    assert not (folder / "filled.csv").exists()
    _, _, found = fill(folder, text, assignments=[f"01={named}"])
    assert found[3][6] == "2"
    with pytest.raises(ValueError, match="No column fits 01_tiny"):
        fill(folder, text, assignments=["01=Homework 2"])


def test_two_columns_that_fit_are_named(folder):
    publish_result(folder, "101")
    with pytest.raises(
        ValueError, match=r'"Lesson 1 part A \(11.* and .* fits 01_tiny. Name one'
    ):
        fill(folder, CANVAS.replace("Quiz 1", "Lesson 1 part A"))


def test_a_number_alone_names_no_lesson(folder):
    publish_result(folder, "101")
    with pytest.raises(ValueError, match="No column of"):
        fill(folder, CANVAS.replace("Lesson 1", "1 minute paper"))


def test_each_lesson_has_its_column_and_a_lesson_without_one_fails(folder):
    add_lesson(folder, "02_other")
    publish_result(folder, "101", negate=1)
    publish_result(folder, "101", double=0, negate=1, lesson="02_other")
    status, said, found = fill(folder, CANVAS)
    assert status == 1 and "no column for 02_other" in said
    assert changes(CANVAS, found) == [(3, 6, "2")]
    status, _, found = fill(folder, CANVAS.replace("Quiz 1", "Lesson 2"))
    assert status == 0 and found[3][5:7] == ["1", "2"]
    assert fill(folder, CANVAS, lesson="01")[0] == 0


@pytest.mark.parametrize("ids", [("12345", "12346"), ("ada@example.edu", "cb")])
def test_moodles_worksheet_gets_grades_and_comments(folder, ids):
    publish_result(
        folder, ids[0], negate=6, notes=("It was <b>renamed</b> &amp; x < 4 & y.",)
    )
    publish_result(folder, ids[1], double=0, negate=1.5)
    status, said, found = fill(folder, MOODLE)
    assert status == 0
    note = "It was &lt;b>renamed&lt;/b> &amp;amp; x < 4 & y."
    assert changes(MOODLE, found) == [(1, 4, "3"), (1, 9, note), (2, 4, "1.5")]
    assert f"{ids[0]} 01_tiny: 7 capped at the 3 points possible" in said
    assert "without a grade for 01_tiny:\n    Emmy Noether" in said


def test_what_people_csv_says_of_a_learner_finds_the_line(folder):
    """Her work came under an id that the file does not have."""
    publish_result(folder, "ada", negate=1.5)
    people = folder / "class" / "grading" / "people.csv"
    people.write_text("id,name,canvas_id,moodle_id\nada,,101,777 12345\n")
    assert changes(CANVAS, fill(folder, CANVAS)[2]) == [(3, 6, "2.5")]
    assert changes(MOODLE, fill(folder, MOODLE)[2]) == [(1, 4, "2.5")]


def test_moodles_worksheet_is_of_the_lesson_that_is_named(folder):
    add_lesson(folder, "02_other")
    publish_result(folder, "12345", negate=1)
    publish_result(folder, "12345", double=0, negate=1, lesson="02_other")
    with pytest.raises(ValueError, match=r"template\.csv about\? Add --lesson"):
        fill(folder, MOODLE)
    assert fill(folder, MOODLE, lesson="2")[2][1][4] == "1"
    assert fill(folder, MOODLE, lesson="1")[2][1][4] == "2"


def test_moodles_worksheet_of_another_lesson_is_refused(folder):
    add_lesson(folder, "02_other")
    for lesson, first in ((tiny.NAME, 12345), ("02_other", 22345)):
        publish_result(folder, "ada", lesson=lesson)
        received = folder / "class" / "grading" / "received" / lesson / "ada"
        received.parent.mkdir(parents=True)
        received.write_text(f"m.zip/Ada_{first}_assignsubmission_file/{lesson}.ipynb")
    people = folder / "class" / "grading" / "people.csv"
    people.write_text("id,name,moodle_id\nada,,12345 22345\n")
    with pytest.raises(
        ValueError, match=r"is the worksheet of 01_tiny, not of 02_other.* 12345 .*Down"
    ):
        fill(folder, MOODLE, lesson="02")
    assert not (folder / "filled.csv").exists()
    assert fill(folder, MOODLE, lesson="01")[0] == 0


def test_the_command_writes_the_filled_file_into_the_class(folder):
    publish_result(folder, "101", negate=1)
    template = folder / "canvas.csv"
    template.write_text(CANVAS)
    command = ["export", str(folder / "class"), "--template", str(template)]
    assert main([*command, "--bonus", "keep"]) == 0
    found = rows(folder / "class" / "grading" / "grades-canvas.csv")
    assert changes(CANVAS, found) == [(3, 6, "2")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MOODLE.replace("Grade,", "Mark,"), 'no grading worksheet.*"Grade"'),
        (CANVAS.replace("Lesson 1", "Quiz 2"), "No column of"),
        ("Kennung,Bewertung\n1,\n", r"as Moodle does \(in English\)"),
        ("a,Lesson 1 (5)\n1,2\n", "is no roster"),
    ],
)
def test_a_file_that_is_no_template_is_named(folder, text, said):
    publish_result(folder, "101")
    with pytest.raises(ValueError, match=said):
        fill(folder, text)
    assert not (folder / "filled.csv").exists()
