"""An instructor imports a roster, and sees who has not submitted."""

import csv
import zipfile

import pytest
from classes import make_class, printed
from nbgrader.api import Gradebook
from published import add_lesson, hand_in_empty, publish_result

from grader.__main__ import main
from grader.classroom.enrollment import roster
from grader.classroom.roster import add_names, read_aliases
from grader.submissions.collecting import collect

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lesson 1 (12345)
,,,,,Manual Posting
    Points Possible,,,,,3.00
"Lovelace, Ada",101,20260001,alovelace,Monday,
"Kim, Minsu",102,20260002,mkim,Monday and Friday,
"Kim, Minsu",103,20260003,mkim2,Friday,
"Student, Test",104,,5f0c,Monday,
"""
MOODLE = """\
Identifier,"Full name","Email address",Status,Grade
"Participant 12345","Ada Lovelace",ada@example.edu,"No submission - ",
"Participant 12346","Minsu Kim",mkim@example.edu,"No submission - ",
"""
PARTICIPANTS = """\
"First name",Surname,"Email address",Groups
Ada,Lovelace,ada@example.edu,Monday
Minsu,Kim,mkim@example.edu,
"""


@pytest.fixture
def folder(tmp_path):
    make_class(tmp_path)
    return tmp_path


def run(folder, *texts, encoding="utf-8"):
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"roster{number}.csv")
        files[-1].write_text(text, encoding=encoding)
    status, lines = printed(roster, folder / "class", files)
    assert status == 0
    return lines


def people(folder):
    path = folder / "class" / "grading" / "people.csv"
    with open(path, encoding="utf-8-sig", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def names_in_gradebook(folder):
    path = folder / "class" / "gradebook.db"
    with Gradebook(f"sqlite:///{path}", "distributed-jax") as book:
        return {one.id: (one.last_name, one.first_name) for one in book.students}


def test_canvas_roster_has_the_ids_of_canvas_and_no_test_student(folder):
    lines = run(folder, CANVAS)
    assert lines[0].endswith("people.csv: 3 learners are on the roster")
    found = people(folder)
    assert {one: found[one]["name"] for one in found} == {
        "101": "Lovelace, Ada",
        "102": "Kim, Minsu",
        "103": "Kim, Minsu",
    }
    wanted = ("canvas_id", "sis_user_id", "sis_login_id", "section", "roster")
    assert [found["102"][name] for name in wanted] == [
        *("102", "20260002", "mkim", "Monday and Friday", "yes")
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MOODLE, {"12345": "Ada Lovelace", "12346": "Minsu Kim"}),
        (
            PARTICIPANTS,
            {"ada@example.edu": "Lovelace, Ada", "mkim@example.edu": "Kim, Minsu"},
        ),
        ("id,name\nada,Ada Lovelace\nmkim,\n", {"ada": "Ada Lovelace", "mkim": ""}),
        ("ID;Name;Email\nada;Ada;a@b.edu\n", {"ada": "Ada"}),
        (
            "LastName,FirstName,ID,SIS Login ID,Section\nLovelace,Ada,7,ada,\n",
            {"7": "Lovelace, Ada"},
        ),
    ],
    ids=["worksheet", "participants", "plain", "semicolons", "names apart"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_rosters_of_other_kinds(folder, text, found, encoding):
    run(folder, text, encoding=encoding)
    assert {one: row["name"] for one, row in people(folder).items()} == found


@pytest.mark.parametrize(
    ("submitted", "ids"),
    [
        (["101"], ["101", "102", "103"]),
        (["alovelace", "mkim"], ["alovelace", "mkim", "mkim2"]),
        (["20260001", "20260003"], ["20260001", "20260002", "20260003"]),
    ],
)
def test_learners_have_the_ids_under_which_their_class_submits(folder, submitted, ids):
    for student in submitted:
        hand_in_empty(folder, student)
    lines = run(folder, CANVAS)
    assert [*people(folder)] == ids
    assert f"01_tiny: {len(submitted)} of 3 submitted" in lines
    assert "not on the roster" not in lines.text


def test_a_name_that_two_learners_have_is_nobodys(folder):
    """An archive without ids is named after its learner."""
    hand_in_empty(folder, "kim")
    text = "Identifier,Full name\nParticipant 101,Ada\nParticipant 1,kim\n"
    for student in ("101", "1"):  # at last, one of the two is known by the number
        hand_in_empty(folder, student)
        lines = run(folder, text + "Participant 2,kim\n")
        assert [*people(folder)] == ["1", "101", "2"]
        assert "not on the roster: kim, 01_tiny" in lines


def test_a_learner_imported_before_the_first_submission_is_not_there_twice(folder):
    run(folder, CANVAS)
    path = folder / "class" / "grading" / "people.csv"
    text = path.read_text(encoding="utf-8-sig").replace("\n", ",\n")
    text = text.replace("yes,\n", "yes,notes for Ada\n", 1).replace(
        ",\n", ",group\n", 1
    )
    path.write_text(text, encoding="utf-8-sig")
    hand_in_empty(folder, "alovelace")
    lines = run(folder, CANVAS)
    assert [*people(folder)] == ["alovelace", "mkim", "mkim2"]
    assert people(folder)["alovelace"]["group"] == "notes for Ada"
    assert {*names_in_gradebook(folder)} == {"alovelace", "mkim", "mkim2"}
    assert "no longer" not in lines.text


def test_a_learner_of_moodle_has_one_id_in_all_assignments(folder):
    """Moodle gives another number in each; the e-mail address joins them."""
    add_lesson(folder, "02_other")
    second = MOODLE.replace("Participant 1", "Participant 2")
    for text, number, lesson in (
        (MOODLE, "12345", "01_tiny"),
        (second, "22345", "02_other"),
    ):
        run(folder, text)
        download = folder / f"{number}.zip"
        with zipfile.ZipFile(download, "w") as archive:
            name = f"Ada Lovelace_{number}_assignsubmission_file/{lesson}.ipynb"
            archive.writestr(name, "")
        aliases = read_aliases(folder / "class" / "grading" / "people.csv")
        lessons = ["01_tiny", "02_other"]
        collect([download], folder / "class", lessons, aliases)
    submitted = folder / "class" / "submitted"
    assert [path.name for path in submitted.iterdir()] == ["12345"]
    assert people(folder)["12345"]["moodle_id"] == "12345 22345"
    assert run(folder) == [
        "01_tiny: 1 of 2 submitted",
        "    not submitted: Minsu Kim (12346)",
        "02_other: 1 of 2 submitted",
        "    not submitted: Minsu Kim (12346)",
    ]


def test_work_that_came_before_its_worksheet_counts_for_its_learner(folder):
    add_lesson(folder, "02_other")
    hand_in_empty(folder, "12345")
    run(folder, MOODLE)
    hand_in_empty(folder, "22345", "02_other")
    lines = run(folder, MOODLE.replace("Participant 1", "Participant 2"))
    assert "02_other: 1 of 2 submitted" in lines
    assert "not on the roster" not in lines.text


def test_two_learners_with_one_address_stay_two(folder):
    run(folder, "id,name,email\nada,Ada,home@example.edu\n")
    run(folder, "id,name,email\nada,Ada,home@example.edu\nbea,Bea,home@example.edu\n")
    assert [*people(folder)] == ["ada", "bea"]


def test_two_sections_make_one_roster(folder):
    other = CANVAS.replace("101,20260001,alovelace", "105,20260005,turing")
    lines = run(folder, CANVAS, other)
    assert lines[0].endswith(": 4 learners are on the roster")


def test_who_is_not_in_the_next_roster_is_named_and_stays_known(folder):
    run(folder, "id,name\nada,Ada\nbob,Bob\n")
    lines = run(folder, "id,name\nada,Ada King\n")
    assert lines[1] == "no longer on it: Bob (bob)"
    assert people(folder)["ada"]["name"] == "Ada King"
    assert people(folder)["bob"]["name"] == "Bob"
    assert "01_tiny: 0 of 1 submitted" in lines


def test_two_learners_with_the_same_id_are_named_and_nothing_is_written(folder):
    with pytest.raises(ValueError, match='the id "ada": Ada and Bob'):
        run(folder, "id,name\nada,Ada\nada,Bob\n")
    assert not (folder / "class" / "grading" / "people.csv").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Vorname,Nachname\nAda,King\n", "is no roster. It needs the columns"),
        (b"id,name\n1,\xe9\n", "is not UTF-8"),
        (b"", "no column names"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_is_no_roster_is_named(folder, capsys, data, said):
    path = folder / "list.csv"
    if data is not None:
        path.write_bytes(data)
    assert main(["roster", str(folder / "class"), str(path)]) == 2
    assert f"{path} " in (error := capsys.readouterr().err) and said in error


def test_who_has_not_submitted_is_listed_by_lesson(folder):
    add_lesson(folder, "02_other")
    run(folder, "id,name\nada,Ada\nbob,Bob\ncleo,\n")
    hand_in_empty(folder, "bob")
    hand_in_empty(folder, "dan")
    hand_in_empty(folder, "dan", "02_other")
    hand_in_empty(folder, "cleo", "02_other")
    add_names(folder / "class" / "grading" / "people.csv", {"dan": "Dan"})
    assert run(folder) == [
        "01_tiny: 1 of 3 submitted",
        "    not submitted: Ada (ada)",
        "    not submitted: cleo",
        "02_other: 1 of 3 submitted",
        "    not submitted: Ada (ada)",
        "    not submitted: Bob (bob)",
        "not on the roster: Dan (dan), 01_tiny, 02_other",
    ]


def test_without_a_roster_the_command_says_how_to_import_one(folder):
    hand_in_empty(folder, "ada")
    assert "Import one: python -m grader roster" in run(folder)[0]


def test_the_formgrader_shows_names(folder):
    """Where no name is known, it shows the id instead of "None, None"."""
    publish_result(folder, "zoe")
    run(folder, 'id,name\nada,Ada Lovelace\nbob,"van Beethoven, Ludwig"\n')
    assert names_in_gradebook(folder) == {
        "ada": ("Lovelace", "Ada"),
        "bob": ("van Beethoven", "Ludwig"),
        "zoe": ("zoe", ""),
    }
    add_names(folder / "class" / "grading" / "people.csv", {"zoe": "Zoe"})
    publish_result(folder, "zoe")
    assert names_in_gradebook(folder)["zoe"] == ("Zoe", "")
