"""A section of the class is graded, reported and exported by itself."""

import csv
import zipfile

import pytest
from bs4 import BeautifulSoup
from classes import RIGHT, WRONG, make_class, printed
from pretended import NAME, pretended, regrade, report, submit
from submitted import zipped

from grader.__main__ import main
from grader.classroom import grade as grading
from grader.classroom.enrollment import roster
from grader.classroom.export import export
from grader.classroom.returning import return_feedback
from grader.classroom.roster import read_sections

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture
LINES = {"ada": "Monday", "bob": "Friday", "cy": "Monday and Friday", "dan": ""}
TEMPLATE = "Student,ID,SIS Login ID,Section,Lesson 1 (5)\n"
TEMPLATE += "".join(f"{one},{n},{one},,\n" for n, one in enumerate(LINES, 101))


@pytest.fixture
def folder(tmp_path):
    make_class(tmp_path)
    lines = [f"{one},{section}\n" for one, section in LINES.items()]
    (tmp_path / "roster.csv").write_text("".join(["id,section\n", *lines]))
    printed(roster, tmp_path / "class", [tmp_path / "roster.csv"])
    for student in LINES:
        submit(tmp_path, student, **(WRONG if student == "bob" else RIGHT))
    return tmp_path


def grade(folder, *downloads, **options):
    status, lines = printed(grading.grade, folder / "class", downloads, **options)
    assert status == 0, lines
    return lines


def graded_in(lines):
    return [line.split()[0] for line in lines if f" {NAME}  GRADED" in line]


def exported(folder, **options):
    printed(export, folder / "class", **options)
    path = folder / "class" / "grading" / "grades.csv"
    with open(path, encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row["score"] for row in csv.DictReader(file)}


def page_of(folder, section):
    path = folder / "class" / "grading" / "report" / f"{NAME}-{section}.html"
    return BeautifulSoup(path.read_text(), "html.parser").get_text(" ")


def test_a_learner_may_be_in_several_sections(tmp_path):
    path = tmp_path / "people.csv"
    names = ["A", "B, A", "A, B, and C", "A and B", "b; C", ""]
    lines = [f'{n},,"{name}"\n' for n, name in enumerate(names)]
    path.write_text("id,name,section\n" + "".join(lines))
    assert read_sections(path) == {
        "A": {"0", "1", "2", "3"},
        "B": {"1", "2", "3"},
        "C": {"2", "4"},
        "b": {"4"},
    }


def test_only_one_section_is_graded_and_all_that_came_in_is_collected(folder):
    with open(folder / "roster.csv", "a", encoding="utf-8") as file:
        file.write("eve,\n")
    printed(roster, folder / "class", [folder / "roster.csv"])
    path = folder / "more.zip"
    path.write_bytes(zipped({f"eve_{NAME}.ipynb": b"{}"}))
    lines = grade(folder, path, section="monday")
    assert "1 file: 1 counts." in lines.text
    assert {*graded_in(lines)} == {"ada", "cy"}
    assert "2 submissions: 0 graded before, 2 to grade" in lines.text
    assert {*graded_in(grade(folder, section="Friday"))} == {"bob"}
    assert {*graded_in(grade(folder))} == {"dan"}


def test_each_section_has_a_report_and_the_class_has_one(folder):
    grade(folder)
    assert "4 submissions" in BeautifulSoup(report(folder), "html.parser").get_text(" ")
    monday, friday = page_of(folder, "Monday"), page_of(folder, "Friday")
    assert "Monday" in monday and "2 submissions" in monday
    assert "Friday" in friday and "2 submissions" in friday
    assert "Median 3" in " ".join(monday.split())


def test_a_class_of_one_section_has_one_report(folder):
    (folder / "roster.csv").write_text("id,section\nada,Monday\n")
    printed(roster, folder / "class", [folder / "roster.csv"], replace=True)
    people = folder / "class" / "grading" / "people.csv"
    people.write_text("id,name,section\nada,Ada,Monday\n")
    grade(folder)
    reports = (folder / "class" / "grading" / "report").iterdir()
    assert [path.name for path in reports] == [f"{NAME}.html"]


def test_an_export_has_the_learners_of_the_section(folder):
    grade(folder)
    assert exported(folder, section="Monday") == {"ada": "3", "cy": "3"}
    assert {*exported(folder)} == {*LINES}


def test_a_template_is_filled_in_for_the_section(folder):
    grade(folder)
    template, to = folder / "canvas.csv", folder / "filled.csv"
    template.write_text(TEMPLATE)
    options = {"template": template, "section": "Friday"}
    status, lines = printed(export, folder / "class", to, **options)
    assert status == 0, lines
    rows = [*csv.reader(to.read_text().splitlines())]
    assert [row[4] for row in rows[1:]] == ["", "2", "3", ""]


def test_feedback_of_one_section_is_returned(folder):
    grade(folder)
    path = folder / "feedback.zip"
    facts = {"to": path, "section": "Monday"}
    status, lines = printed(return_feedback, folder / "class", "01", **facts)
    assert status == 0 and "feedback for 2 learners" in lines.text
    with zipfile.ZipFile(path) as archive:
        assert {*archive.namelist()} == {f"ada/{NAME}.html", f"cy/{NAME}.html"}


def test_one_section_is_graded_again(folder):
    grade(folder)
    lines = regrade(folder, section="Monday")
    assert lines[0] == "2 submissions to grade again."
    assert regrade(folder, "ada", "bob", section="Monday")[0].startswith("1 submission")


@pytest.mark.parametrize("command", ["grade", "regrade", "export", "return"])
def test_a_section_that_nobody_is_in_is_named(folder, command, capsys):
    lesson = ["01"] if command == "return" else []
    words = [command, str(folder / "class"), *lesson, "--section", "Tuesday"]
    assert main(words) == 2
    said = 'people.csv has no section "Tuesday". It has: Friday, Monday.'
    assert said in capsys.readouterr().err


def test_a_check_that_is_no_python_stops_the_command_and_is_named(folder):
    grade(folder)
    path = folder / "class/source" / NAME / "coursekit/checks" / f"{NAME}.py"
    text = path.read_text()
    path.write_text(text.replace("observe(negate, 3), -3)", "observe(negate, 3, -3)"))
    with pytest.raises(ValueError, match=r"checks/01_tiny\.py, line \d+: .*Mend this"):
        grade(folder)
