"""Late work: due dates and penalties are nbgrader's, extensions are in one table."""

import csv
import datetime
import re
import zipfile
from zoneinfo import ZoneInfo

import nbformat
import pytest
from bs4 import BeautifulSoup
from classes import RIGHT, answered, make_class, printed
from pretended import (
    NAME,
    decide,
    grade,
    gradebook_of,
    page,
    pretended,
    report,
    set_due,
    submit,
)

from grader.classroom import grade as grading
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.folder import Classroom
from grader.classroom.lateness import Lateness, in_words, moment, seconds_late
from grader.classroom.purge import purge
from grader.classroom.returning import return_feedback
from grader.results import ExerciseResult, Outcome, Result, late_text

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture
ZERO = 'c.LateSubmissionPlugin.penalty_method = "zero"\n'
# One point for each day that has begun.
DAILY = """
from nbgrader.plugins import LateSubmissionPlugin

class Daily(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return -(-total_seconds_late // 86400)

c.AssignLatePenalties.plugin_class = Daily
"""
DUE = "2026-03-30 12:00"


@pytest.fixture
def folder(tmp_path):
    """A class in which ada was in time and bob 25 hours late, by nbgrader's files."""
    make_class(tmp_path)
    for student, time in (("ada", "2026-03-30 12:00"), ("bob", "2026-03-31 13:00")):
        path = submit(tmp_path, student, **RIGHT)
        path.with_name("timestamp.txt").write_text(f"{time}:00.000000 UTC")
    return tmp_path


def settings(folder, text):
    with open(folder / "class" / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write(text)


def extend(folder, *lines):
    path = folder / "class" / "grading" / "extensions.csv"
    path.write_text("\n".join(["student,lesson,until", *lines]) + "\n")


def grade_due(folder, due=DUE):
    grade(folder)
    set_due(folder, due)
    return grade(folder)


def words(html):
    return " ".join(BeautifulSoup(html, "html.parser").get_text(" ").split())


def scores(folder):
    printed(export, folder / "class")
    with open(
        folder / "class" / "grading" / "grades.csv", encoding="utf-8-sig", newline=""
    ) as file:
        return {row["student"]: row["score"] for row in csv.DictReader(file)}


def penalties(folder):
    with gradebook_of(folder) as book:
        return {
            one.student.id: one.late_submission_penalty
            for one in book.assignment_submissions(NAME)
        }


def test_nbgraders_penalty_is_in_the_gradebook_and_the_score_after_it_everywhere(
    folder,
):
    settings(folder, ZERO)
    grade_due(folder)
    assert penalties(folder) == {"ada": 0, "bob": 3}
    assert scores(folder) == {"ada": "3", "bob": "0"}
    said = (
        "This was submitted 1 day late: a penalty of 3 points is deducted from the 3 "
        "earned, which leaves 0."
    )
    assert "0 of 3 points" in words(page(folder, "bob"))
    lines = printed(explain, folder / "class", "bob", "1")[1]
    assert lines[0] == "bob 01_tiny: GRADED            0 of 3"
    for text in (words(page(folder, "bob")), words(report(folder)), lines.text):
        assert said in text
    assert "late" not in words(page(folder, "ada"))
    assert "Median 1.5" in words(report(folder))


def test_without_a_penalty_lateness_is_said_and_costs_nothing(folder):
    grade_due(folder)
    assert scores(folder) == {"ada": "3", "bob": "3"}
    assert "This was submitted 1 day late." in words(page(folder, "bob"))


def test_a_plug_in_of_ones_own_may_be_a_module_in_the_course_folder(folder):
    settings(folder, 'c.AssignLatePenalties.plugin_class = "by_day.Daily"\n')
    module = DAILY.replace("c.AssignLatePenalties", "unused = object  #")
    (folder / "class" / "by_day.py").write_text(module)
    grade_due(folder)
    assert scores(folder) == {"ada": "3", "bob": "1"}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            'LateSubmissionPlugin.penalty_method = "zeroo"',
            "'zero'], not the str 'zeroo'",
        ),
        (
            'AssignLatePenalties.plugin_class = "by_dya.Daily"',
            "'by_dya.Daily' could not",
        ),
    ],
)
def test_a_penalty_that_does_not_exist_is_named_before_anything_is_graded(
    folder, setting, said
):
    settings(folder, f"c.{setting}\n")
    with pytest.raises(ValueError, match=rf"nbgrader_config\.py: .*{said}"):
        grade(folder)
    assert not (folder / "class" / "grading" / "results").exists()


def test_a_due_date_of_no_lesson_is_named(folder):
    grade(folder)
    set_due(folder, DUE, lesson="01_tyni")
    [line] = [line for line in grade(folder) if "01_tyni" in line]
    assert line.startswith('note: nbgrader has an assignment "01_tyni", which is no ')
    assert line.endswith("misspelled: nbgrader db assignment remove 01_tyni")


def test_a_penalty_never_takes_more_than_was_earned(folder):
    settings(folder, DAILY)
    grade_due(folder, due="2026-03-01 12:00")
    assert scores(folder) == {"ada": "0", "bob": "0"}
    assert penalties(folder) == {"ada": 3, "bob": 3}


def test_a_penalty_follows_a_persons_score_and_a_due_date_that_is_moved(folder):
    settings(folder, ZERO)
    grade_due(folder)
    decide(folder, "bob", "double", 0.5)
    grade(folder)
    assert penalties(folder)["bob"] == 2.5
    set_due(folder, "2026-04-30 12:00")
    grade(folder)
    assert scores(folder) == {"ada": "3", "bob": "2.5"}
    assert "late" not in words(page(folder, "bob"))


def test_an_extension_is_for_one_learner_and_can_be_taken_back(folder):
    settings(folder, ZERO)
    extend(folder, f"bob,{NAME},2026-03-31")
    grade_due(folder, due="2026-03-20 12:00")
    assert scores(folder) == {"ada": "0", "bob": "3"}
    with gradebook_of(folder) as book:
        extension = book.find_submission(NAME, "bob").extension
    assert extension == datetime.timedelta(days=11, hours=11, minutes=59, seconds=59)
    extend(folder, "ada, 1, 2026-04-01 10:00 UTC")
    grade(folder)
    assert scores(folder) == {"ada": "3", "bob": "0"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "bob,7,2026-04-01",
            r"line 2: This course has no lesson \"7\". It has: 01_tiny",
        ),
        ("bob,1,Friday", r"line 2: \"Friday\" is no time. Write it like 2026-"),
        ("bob,1", r"line 2: \"\" is no time"),
    ],
)
def test_a_damaged_extension_is_named_before_any_file_is_placed(folder, line, said):
    extend(folder, line)
    given = folder / f"cleo_{NAME}.ipynb"
    given.write_bytes(b"x")
    with pytest.raises(ValueError, match=said):
        grading.grade(folder / "class", [given])
    assert not (folder / "class" / "submitted" / "cleo").exists()


def test_an_extension_in_another_encoding_is_named(folder):
    path = folder / "class" / "grading" / "extensions.csv"
    path.write_bytes("student,lesson,until\nJos\u00e9,1,2026-04-01\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"extensions\.csv is not UTF-8"):
        grading.grade(folder / "class")


def test_extensions_may_be_separated_as_a_spreadsheet_saves_them(folder):
    path = folder / "class" / "grading" / "extensions.csv"
    path.write_text("student;lesson;until\nbob;1;2026-04-01\n")
    assert [*Lateness(Classroom(folder / "class")).extensions] == [("bob", NAME)]


def test_an_extension_of_somebody_who_has_not_submitted_is_listed(folder):
    extend(folder, "adaa,1,2026-04-01", "ada,1,2026-04-01")
    lines = [line for line in grade(folder) if line.startswith("extended")]
    until = "2026-04-01 23:59 UTC"
    assert lines == [f"extended, but not submitted: adaa {NAME} until {until}"]


def test_a_learner_is_found_by_what_the_roster_knows(folder):
    grade(folder)
    people = folder / "class" / "grading" / "people.csv"
    people.write_text(
        "id,name,sis_login_id,section,matric\nbob,Robert Boole,boole,A,M1"
    )
    with pytest.raises(ValueError, match='There is no "A" in'):
        purge(folder / "class", ["A"])
    for known_as in ("bob", "Robert Boole", "BOOLE", "M1"):
        _, lines = printed(explain, folder / "class", known_as, "1")
        assert lines[0].startswith(f"bob {NAME} (Robert Boole): ")
        _, lines = printed(purge, folder / "class", [known_as])
        assert "would remove scores and name of bob (Robert Boole)" in lines


def test_purge_removes_a_learners_extension(folder):
    extend(folder, f"bob,{NAME},2026-04-01", f"ada,{NAME},2026-04-01")
    grade(folder)
    printed(purge, folder / "class", ["bob"], apply=True)
    text = (folder / "class" / "grading" / "extensions.csv").read_text()
    assert text == f"student,lesson,until\nada,{NAME},2026-04-01\n"


def classes_lesson(folder):
    return nbformat.read(folder / "class/source" / NAME / f"{NAME}.ipynb", 4)


def download(folder, *names, when=(2026, 3, 31, 13, 0, 0)):
    lesson = classes_lesson(folder)
    path = folder / "download.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            info = zipfile.ZipInfo(name, when)
            notebook = answered(lesson, **RIGHT)
            notebook.cells[0].source += f"\n{number}"
            archive.writestr(info, nbformat.writes(notebook))
    return path


@pytest.fixture
def empty(tmp_path):
    make_class(tmp_path)
    settings(tmp_path, ZERO)
    return tmp_path


def test_the_time_of_a_file_in_moodles_download_decides(empty):
    names = [f"Ada_{n}_assignsubmission_file/{NAME}.ipynb" for n in (11, 12)]
    grade(empty, download(empty, names[0], when=(2026, 3, 1, 9, 0, 0)))
    grade(empty, download(empty, names[1]))
    set_due(empty, "2026-03-15 12:00")
    grade(empty)
    assert scores(empty) == {"11": "3", "12": "0"}
    time = (empty / "class/submitted/11" / NAME / "timestamp.txt").read_text()
    assert time.startswith("2026-0") and time.endswith(":00 UTC\n")


def test_canvass_mark_decides_and_not_the_time_of_its_archive(empty):
    names = f"ada_101_9001_{NAME}.ipynb", f"bob_LATE_102_9002_{NAME}.ipynb"
    grade(empty, download(empty, *names))
    set_due(empty, "2026-03-15 12:00")
    grade(empty)
    assert scores(empty) == {"101": "3", "102": "0"}
    grade(empty, empty / "download.zip")  # once more
    assert scores(empty) == {"101": "3", "102": "0"}
    assert "submitted late, as the LMS says: a penalty" in words(page(empty, "102"))
    extend(empty, f"102,{NAME},2026-04-15")
    grade(empty)
    assert scores(empty) == {"101": "3", "102": "3"}


def test_an_extension_lifts_the_mark_of_canvas_which_alone_knows_the_due_date(empty):
    settings(empty, ZERO)
    path = download(
        empty, f"ada_LATE_101_9001_{NAME}.ipynb", f"bob_LATE_102_9002_{NAME}.ipynb"
    )
    extend(empty, f"102,{NAME},2026-04-15")
    lines = grade(empty, path)
    assert scores(empty) == {"101": "0", "102": "3"}
    [late] = [line for line in lines if line.startswith("late: ")]
    assert late.startswith(f"late: 101 {NAME}: This was submitted late, as the LMS")
    set_due(empty, "2026-04-20 12:00")  # which the "extension" comes before
    grade(empty)
    assert scores(empty)["102"] == "0"


def test_a_newer_file_in_time_takes_canvass_mark_away(empty):
    grade(empty, download(empty, f"bob_LATE_102_9002_{NAME}.ipynb"))
    set_due(empty, "2026-03-15 12:00")
    assert (empty / "class/submitted/102" / NAME / "late.txt").exists()
    names = f"ada_101_9000_{NAME}.ipynb", f"bob_102_9003_{NAME}.ipynb"
    grade(empty, download(empty, *names, when=(2026, 4, 1, 13, 0, 0)))
    assert scores(empty)["102"] == "3"


def test_the_same_download_again_keeps_a_time_that_an_instructor_wrote(empty):
    path = download(empty, f"ada_{NAME}.ipynb")
    grade(empty, path)
    time = empty / "class/submitted/ada" / NAME / "timestamp.txt"
    time.write_text("2026-01-01 00:00 UTC")
    grade(empty, path)
    assert time.read_text() == "2026-01-01 00:00 UTC"


def test_a_late_file_that_cannot_be_graded_makes_no_earlier_one_late(folder):
    settings(folder, ZERO)
    grade_due(folder)
    path = folder / "class/submitted/ada" / NAME
    (path / f"{NAME}.ipynb").write_bytes(b"<html>")
    (path / "timestamp.txt").write_text("2026-04-09 12:00 UTC")
    grade(folder)
    assert scores(folder)["ada"] == "3"


@pytest.mark.parametrize(
    "content", [b"soon", b"\xff\x00" * 10**6], ids=["word", "long"]
)
def test_a_time_that_cannot_be_read_stops_nothing_and_is_said(folder, content):
    """A learner may have written it."""
    settings(folder, ZERO)
    grade_due(folder)
    (folder / "class/submitted/bob" / NAME / "timestamp.txt").write_bytes(content)
    grade(folder)
    assert scores(folder) == {"ada": "3", "bob": "3"}
    said = "submitted at an unknown time, since timestamp.txt cannot be read."
    assert said in words(report(folder))


def test_a_link_in_the_place_of_a_time_is_not_followed(folder):
    (folder / "secret.txt").write_text("2026-01-01 secret")
    path = folder / "class/submitted/bob" / NAME / "submission_secret.txt"
    path.symlink_to(folder / "secret.txt")
    grade(folder)
    copies = [*(folder / "class").rglob("submission_secret.txt")]
    assert not any("2026" in one.read_text() for one in copies if one != path)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "less than a minute"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (7200, "2 hours"),
        (86400 * 3 + 5, "3 days"),
    ],
)
def test_lateness_in_words(seconds, said):
    assert in_words(seconds) == said


@pytest.mark.parametrize(
    ("text", "zone", "day", "clock"),
    [
        ("2026-04-03", "UTC", 3, "23:59:59"),
        ("2026-04-03", "Asia/Seoul", 3, "14:59:59"),
        ("2026-04-03", "America/Los_Angeles", 4, "06:59:59"),
        ("2026-04-03 Europe/Berlin", "Asia/Seoul", 3, "21:59:59"),
        ("2026-04-03 17:00 Europe/Berlin", "UTC", 3, "15:00:00"),
        ("2026-04-03 17:00 CEST", "Europe/Berlin", 3, "15:00:00"),
        ("2026-04-03 17:00 KST", "Asia/Seoul", 3, "08:00:00"),
        ("2026-04-03 17:00 +0200", "Asia/Seoul", 3, "15:00:00"),
        ("2026-04-03T17:00:00+02:00", "Asia/Seoul", 3, "15:00:00"),
        ("2026-04-03 17:00:00.123456 UTC", "Asia/Seoul", 3, "17:00:00.123456"),
    ],
)
def test_a_day_means_its_end_where_the_class_is(text, zone, day, clock):
    wanted = datetime.datetime.fromisoformat(f"2026-04-0{day} {clock}")
    assert moment(text, ZoneInfo(zone)) == wanted


@pytest.mark.parametrize("zone", ["CEST", "Berlin", "pm"])
def test_a_time_in_a_zone_that_does_not_exist_is_no_time(zone):
    """Read as if it was in UTC, it would be hours from what was meant."""
    with pytest.raises(ValueError, match=f'"2026-04-03 17:00 {zone}" is no time'):
        moment(f"2026-04-03 17:00 {zone}", ZoneInfo("Asia/Seoul"))


def set_zone(folder, name):
    settings(folder, f'c.Classroom.timezone = "{name}"\n')


def submit_at(folder, student, time, **answers):
    path = submit(folder, student, **(answers or RIGHT))
    path.with_name("timestamp.txt").write_text(time)


def lines_about(lines, student):
    found = re.compile(rf"(late|in time|for a person): {student} ")
    return [line for line in lines if found.match(line)]


def test_an_extension_ends_with_the_day_where_the_class_is(tmp_path):
    make_class(tmp_path)
    settings(tmp_path, ZERO)
    set_zone(tmp_path, "America/Los_Angeles")
    submit_at(tmp_path, "ada", "2026-11-07 20:00 America/Los_Angeles")
    extend(tmp_path, "ada,01,2026-11-07")
    lines = grade_due(tmp_path, "2026-11-05 23:59 America/Los_Angeles")
    assert f"due: {NAME} 2026-11-05 23:59 America/Los_Angeles" in lines
    assert scores(tmp_path) == {"ada": "3"}
    submit_at(tmp_path, "ada", "2026-11-08 00:00 America/Los_Angeles")
    [line] = lines_about(grade(tmp_path), "ada")
    assert "late: a penalty of 3 points is deducted from the 3 earned" in line
    assert line.endswith("It was due on 2026-11-07 23:59 America/Los_Angeles.")
    assert "due on 2026-11-07 23:59 America/Los_Angeles" in words(page(tmp_path, "ada"))
    lines = printed(explain, tmp_path / "class", "ada", "1")[1]
    assert lines[-1].split()[2] == "America/Los_Angeles"


def test_a_time_zone_that_does_not_exist_stops_the_command_and_is_named(folder):
    set_zone(folder, "Europe/Berln")
    with pytest.raises(ValueError, match=r'timezone is "Europe/Berln", which'):
        grade(folder)


@pytest.mark.parametrize(
    ("due", "submitted", "days"),
    [
        ("2026-10-23 23:59", "2026-10-26 23:00", 3),  # the day between has 25 hours
        ("2026-10-24 12:00", "2026-10-25 11:30", 1),
        ("2026-10-24 12:00", "2026-10-25 12:01", 2),
        ("2026-03-28 12:00", "2026-03-29 12:01", 2),  # and this one has 23
        ("2026-03-28 12:00", "2026-03-29 11:59", 1),
        ("2026-03-28 23:59", "2026-03-29 03:30", 1),
    ],
)
def test_a_day_is_one_day_when_the_clocks_change(tmp_path, due, submitted, days):
    make_class(tmp_path)
    settings(tmp_path, DAILY)
    set_zone(tmp_path, "Europe/Berlin")
    submit_at(tmp_path, "ada", f"{submitted} Europe/Berlin")
    grade_due(tmp_path, f"{due} Europe/Berlin")
    assert scores(tmp_path) == {"ada": f"{3 - days}"}


def test_hours_are_counted_as_they_pass_when_the_clocks_change():
    berlin = ZoneInfo("Europe/Berlin")
    times = "2026-03-28 23:59", "2026-03-29 03:29"
    due, submitted = (moment(f"{one} Europe/Berlin") for one in times)
    assert seconds_late(due, submitted, berlin) == 2.5 * 3600


def test_a_line_says_what_a_penalty_leaves_of_the_points_that_were_earned(folder):
    """Not of 0, which would leave -3."""
    settings(folder, ZERO)
    grade(folder)
    set_due(folder, DUE)
    [line] = lines_about(grade(folder), "bob")
    assert (
        "a penalty of 3 points is deducted from the 3 earned, which leaves 0." in line
    )


def test_a_score_that_a_penalty_takes_is_no_minus_zero(folder):
    third = ExerciseResult("double", Outcome.PARTLY, 12.87, 15)
    for penalty in (12.87, 12.87 + 1e-12, 12.869999999):
        late = Result(NAME, (third,), late="1 day late", penalty=penalty)
        assert f"{late.score:g}" == "0" and late_text(late).endswith("leaves 0.")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: settings(folder, ZERO),
        lambda folder: settings(folder, DAILY),
        lambda folder: set_due(folder, "2026-03-30 11:00"),
        lambda folder: submit_at(folder, "bob", "2026-04-02 13:00 UTC"),
    ],
    ids=["penalty", "plug-in", "due date", "time stamp"],
)
def test_a_change_of_what_is_late_or_what_it_costs_is_said_once(folder, change):
    grade_due(folder)
    assert lines_about(grade(folder), "bob") == []
    change(folder)
    lines = printed(export, folder / "class")[1]
    [line] = lines_about(lines, "bob")
    lines = grade(folder)
    assert "2 submissions: 2 graded before, 0 to grade." in lines
    assert lines_about(lines, "bob") == [line]
    assert line.startswith(f"late: bob {NAME}: This was submitted ")
    assert lines_about(grade(folder), "bob") == []


def test_returned_feedback_says_it_too_if_it_is_the_first_to_find_it(folder):
    grade_due(folder)
    settings(folder, ZERO)
    _, lines = printed(return_feedback, folder / "class", "1")
    assert len(lines_about(lines, "bob")) == 1
    assert "0 of 3 points" in words(page(folder, "bob"))


def test_a_learner_who_is_no_longer_late_is_said(folder):
    settings(folder, ZERO)
    grade_due(folder)
    extend(folder, f"bob,{NAME},2026-04-01")
    assert lines_about(grade(folder), "bob") == [f"in time: bob {NAME}: 3 points"]


EARLIER = "An earlier file was in time ("


def test_an_earlier_file_in_time_of_the_same_download_is_named(empty):
    path, lesson = empty / "moodle.zip", classes_lesson(empty)
    times = {"first": (2026, 3, 1, 9, 0, 0), "last": (2026, 3, 31, 9, 0, 0)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, when in times.items():
            notebook = answered(lesson, **RIGHT)
            notebook.cells[0].source += name
            place = f"Ada_11_assignsubmission_file/{name}.ipynb"
            info = zipfile.ZipInfo(place, when)
            archive.writestr(info, nbformat.writes(notebook))
    grade(empty, path)
    set_due(empty, "2026-03-15 12:00")
    late, earlier = lines_about(grade(empty), "11")
    assert late.startswith("late: ")
    when = datetime.datetime(2026, 3, 1, 9).astimezone(datetime.UTC)
    said = f"{EARLIER}{when:%Y-%m-%d %H:%M} UTC, first.ipynb), but the newest one"
    assert earlier.startswith(f"for a person: 11 {NAME}: {said}")
    assert said in words(page(empty, "11"))
    set_due(empty, "2026-02-15 12:00")  # then both are late
    assert len(lines_about(grade(empty), "11")) == 1


def test_an_earlier_file_in_time_that_was_graded_before_is_named(folder):
    """So it is with nbgrader's exchange, which replaces the file."""
    grade_due(folder)
    answers = RIGHT | {"double": RIGHT["double"] + "  # again"}
    submit_at(folder, "ada", "2026-04-02 12:00 UTC", **answers)
    late, earlier = lines_about(grade(folder), "ada")
    assert "3 days late" in late
    assert f"{EARLIER}2026-03-30 12:00 UTC), but the newest one counts." in earlier
    purged = printed(purge, folder / "class", ["ada"], apply=True)[1]
    assert f"removed {folder / 'class/grading/earlier' / NAME / 'ada'}" in purged


def test_of_canvass_files_the_mark_says_which_was_in_time(empty):
    grade(empty, download(empty, f"bob_102_9002_{NAME}.ipynb"))
    names = f"ada_101_9000_{NAME}.ipynb", f"bob_LATE_102_9003_{NAME}.ipynb"
    lines = grade(empty, download(empty, *names, when=(2026, 4, 1, 13, 0, 0)))
    late, earlier = lines_about(lines, "102")
    assert "late, as the LMS says" in late and EARLIER in earlier
    names = f"ada_101_9000_{NAME}.ipynb", f"bob_LATE_102_9004_{NAME}.ipynb"
    lines = grade(empty, download(empty, *names, f"cy_103_9005_{NAME}.ipynb"))
    assert lines_about(lines, "103") == []


PEOPLE = "id,name,email,sis_login_id\nbob,Robert Boole,boole@x.edu,boole\n"


@pytest.mark.parametrize(
    "named", ["boole@x.edu", "BOOLE@x.edu", "Robert Boole", "boole"]
)
def test_an_extension_finds_whom_the_roster_knows_by_that(folder, named):
    settings(folder, ZERO)
    (folder / "class" / "grading" / "people.csv").write_text(PEOPLE)
    extend(folder, f"{named},{NAME},2026-04-01")
    lines = grade_due(folder)
    assert scores(folder)["bob"] == "3"
    assert not [line for line in lines if line.startswith("extended")]
    printed(purge, folder / "class", ["bob"], apply=True)
    assert "Bo" not in (folder / "class/grading/extensions.csv").read_text().title()


@pytest.mark.parametrize("named", ["bole@x.edu", "Robert Bole", "Boole, Robert"])
def test_an_address_or_a_name_that_is_nobodys_stops_the_command(folder, named):
    """Else the learner would be late for a letter."""
    (folder / "class" / "grading" / "people.csv").write_text(PEOPLE)
    quoted = f'"{named}"' if "," in named else named
    extend(folder, f"{quoted},{NAME},2026-04-01")
    with pytest.raises(ValueError, match=rf'line 2: "{named}" is nobody in .*people'):
        grade(folder)
