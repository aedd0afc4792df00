"""With a roster, a download's learners are those of the class, or a person is asked."""

import csv

import pytest
import tiny
from classes import make_class, printed
from published import hand_in_empty, publish_result
from submitted import zipped

from grader.__main__ import main
from grader.classroom.enrollment import roster
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.folder import Classroom
from grader.classroom.grade import collect_all, grade
from grader.classroom.purge import purge

NUMBERS = range(1, 5)
OWN = "id,name,email\n" + "".join(f"s0{n},Learner {n},l{n}@x.org\n" for n in NUMBERS)
EMPTY = b'{"cells": []}'


def worksheet(first):
    lines = [f'Participant {first + n},"Learner {n}",l{n}@x.org,,' for n in NUMBERS]
    return "\n".join(["Identifier,Full name,Email address,Status,Grade", *lines, ""])


@pytest.fixture
def folder(tmp_path):
    make_class(tmp_path)
    return tmp_path


def take(folder, *texts, **options):
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"roster{number}.csv")
        files[-1].write_text(text, encoding="utf-8")
    return printed(roster, folder / "class", files, **options)[1]


def collected(folder, *names):
    given = folder / "given.zip"
    given.write_bytes(zipped({name.format(tiny.NAME): EMPTY for name in names}))
    return collect_all(Classroom(folder / "class"), [given])


def ids(folder):
    return sorted(path.name for path in (folder / "class").glob("submitted/*"))


def moodle(first):
    return [
        f"Learner {n}_{first + n}_assignsubmission_file_/{{}}.ipynb" for n in NUMBERS
    ]


def test_two_worksheets_of_moodle_are_of_one_class(folder):
    lines = take(folder, worksheet(100), worksheet(200))
    assert "4 learners are on the roster" in lines[0]
    for first in (100, 200):
        assert collected(folder, *moodle(first)).problems == []
    assert ids(folder) == [str(100 + n) for n in NUMBERS]


@pytest.mark.parametrize("has_email", [True, False])
def test_worksheets_keep_the_ids_of_the_classs_own_roster(folder, has_email):
    own = OWN if has_email else "id,name\ns01,Learner 1\ns02,Learner 2\n"
    take(folder, own)
    for first in (100, 200):
        lines = take(folder, worksheet(first))
        assert "another id" not in lines.text and "no longer" not in lines.text
        collected(folder, *moodle(first))
    wanted = ["s01", "s02", "s03", "s04"] if has_email else ["103", "104", "s01", "s02"]
    assert ids(folder) == wanted


def test_work_under_moodles_number_keeps_it_and_the_roster_says_so(folder):
    take(folder, OWN)
    for n in NUMBERS:
        hand_in_empty(folder, str(100 + n))
    for text in (worksheet(100), OWN):
        assert '"s01" is filed under another id: 101' in take(folder, text)


def test_a_row_without_an_id_and_an_id_that_is_no_folder_are_named(folder):
    lines = take(folder, "id,name\ns01,Ada\n,Grace\n,\nada lovelace,Ada L.\n")
    assert "roster0.csv, line 3, has no id and was left out: Grace" in lines.text
    assert "line 4" not in lines.text
    assert '"ada lovelace" is filed under another id: ada-lovelace-' in lines.text


def test_a_download_whose_worksheet_was_forgotten_doubles_nobody(folder):
    take(folder, worksheet(100))
    collected(folder, *moodle(100))
    found = collected(folder, *moodle(200))
    assert ids(folder) == [str(100 + n) for n in NUMBERS]
    [line] = found.left
    assert "4 of 4 learners are not on the roster: 201, 202" in line
    assert "for Moodle, this assignment's grading worksheet" in line
    assert found.summary == "4 files: 4 are left for a person."
    take(folder, worksheet(200))
    assert collected(folder, *moodle(200)).left == set()
    assert ids(folder) == [str(100 + n) for n in NUMBERS]


def test_where_nothing_was_collected_the_exit_status_says_so(folder):
    take(folder, worksheet(100))
    collected(folder, *moodle(200))
    status, lines = printed(grade, folder / "class", [folder / "given.zip"])
    assert status == 1 and lines[-1].startswith("Nothing that you named was collected")


@pytest.mark.parametrize(
    "form, alias",
    [
        ("hw-{}", "hw-{id}"),
        ("hw1-{}-fork", "hw1-{id}-fork"),
        ("lesson_{}", "lesson_{id}"),
    ],
)
def test_clones_are_joined_to_the_roster_by_one_line(folder, form, alias):
    take(folder, OWN)
    names = [f"{form.format(f's0{n}')}/{{}}.ipynb" for n in NUMBERS]
    found = collected(folder, *names)
    assert ids(folder) == []
    [line] = found.left
    assert line.endswith(f'who they are: "{alias},{{id}}".')
    aliases = folder / "class" / "grading" / "aliases.csv"
    aliases.write_text(f"submitted,id\n{alias},{{id}}\n", encoding="utf-8")
    assert collected(folder, *names).problems == []
    assert ids(folder) == ["s01", "s02", "s03", "s04"]
    assert "4 of 4 submitted" in " ".join(take(folder))


def test_one_clone_among_known_learners_is_left_and_a_guest_is_not(folder):
    take(folder, OWN)
    names = ["s01/{}.ipynb", "s02/{}.ipynb", "hw-s03/{}.ipynb", "zoe/{}.ipynb"]
    found = collected(folder, *names)
    assert ids(folder) == ["s01", "s02", "zoe"]
    assert found.left < {*found.problems}
    assert "not on the roster: zoe" in found.problems


def test_a_guest_alone_is_taken_when_a_line_says_so(folder):
    take(folder, OWN)
    assert collected(folder, "zoe_{}.ipynb").left
    aliases = folder / "class" / "grading" / "aliases.csv"
    aliases.write_text("submitted,id\nzoe,zoe\n", encoding="utf-8")
    assert not collected(folder, "zoe_{}.ipynb").problems
    assert ids(folder) == ["zoe"]


def test_who_submitted_nothing_is_in_the_grades(folder):
    take(folder, OWN)
    publish_result(folder, "s02")
    printed(export, folder / "class")
    with open(folder / "class/grading/grades.csv", encoding="utf-8-sig") as file:
        found = [(row["student"], row["status"]) for row in csv.DictReader(file)]
    rest = [(one, "not submitted") for one in ("s01", "s03", "s04")]
    assert found == [("s02", "GRADED"), *rest]


def test_a_purged_learner_has_no_alias_left(folder):
    take(folder, OWN)
    aliases = folder / "class" / "grading" / "aliases.csv"
    aliases.write_text("submitted,id\nlovelace,s01\nnoether,s02\n", encoding="utf-8")
    printed(purge, folder / "class", ["s01"], apply=True)
    assert aliases.read_text(encoding="utf-8").split() == [
        "submitted,id",
        "noether,s02",
    ]


@pytest.mark.parametrize("form", ["l{}@x.org", "l{}", "Learner {}"])
def test_what_the_roster_knows_a_learner_by_is_an_alias(folder, form):
    take(folder, OWN)
    found = collected(folder, *(f"{form.format(n)}/{{}}.ipynb" for n in NUMBERS))
    assert ids(folder) == ["s01", "s02", "s03", "s04"]
    assert found.left == set()


def test_a_learner_of_the_roster_without_work_is_no_stranger(folder):
    take(folder, OWN)
    with pytest.raises(ValueError, match='"s01" submitted nothing for 01 in'):
        explain(folder / "class", "s01", "01")
    with pytest.raises(ValueError, match=r'There is no "s91" in .*: Learner 1 \(s01\)'):
        explain(folder / "class", "s91", "01")


def test_without_a_roster_nobody_is_asked(folder):
    assert collected(folder, "ada_{}.ipynb", "bob_{}.ipynb").problems == []


@pytest.mark.parametrize(
    "text, problem",
    [
        ("id,name\n", "lists no learner"),
        ("id,name\n,\n", "lists no learner"),
        ("id,name\ns91,Other 1\ns92,Other 2\n", "4 of 4 learners on the roster"),
        ("id,name\ns91,Other 1\ns01,Learner 1\n", "3 of 4 learners on the roster"),
    ],
    ids=["header", "empty line", "other section", "nearly another"],
)
def test_a_roster_that_would_lose_most_of_the_class_changes_nothing(
    folder, text, problem
):
    take(folder, OWN)
    path = folder / "class" / "grading" / "people.csv"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"{problem}.*Nothing was changed"):
        take(folder, text)
    assert path.read_bytes() == before


def test_most_of_a_class_may_leave_it(folder):
    take(folder, OWN)
    lines = take(folder, "id,name\ns91,Other\n", replace=True)
    assert "1 learners are on the roster" in lines[0]
    with open(folder / "class/grading/people.csv", encoding="utf-8-sig") as file:
        on_roster = {row["id"]: row["roster"] for row in csv.DictReader(file)}
    assert on_roster == {"s91": "yes"} | {f"s0{n}": "" for n in NUMBERS}


def test_a_mistyped_download_stops_before_anything_is_collected(folder, capsys):
    good = folder / f"ada_{tiny.NAME}.ipynb"
    good.write_bytes(EMPTY)
    words = ["grade", str(folder / "class"), str(good), str(folder / "nix.zip")]
    assert main(words) == 2
    assert "nix.zip" in capsys.readouterr().err
    assert ids(folder) == []


TYPOS = {
    "grade CLASS --workers -1": "-1 is no whole number up to 10000",
    "grade CLASS --workers two": "two is no whole number",
    "grade CLASS --seconds x": "x is no number between 0 and a million",
    "lab --port 99999": "99999 is no whole number up to 65535",
    "roster CLASS CLASS": "is a folder. Name a CSV file.",
}


@pytest.mark.parametrize("words", TYPOS)
def test_a_mistyped_option_is_named_with_what_it_may_be(folder, capsys, words):
    words, problem = words.replace("CLASS", str(folder / "class")), TYPOS[words]
    try:
        status = main(words.split())
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert problem in capsys.readouterr().err


def test_what_was_taken_is_not_said_to_be_left_alone(folder, capsys):
    """Nothing runs: nobody's file is gradable."""
    take(folder, OWN)
    hand_in_empty(folder, "s01")
    given = folder / "given.zip"
    files = {
        f"s01/{tiny.NAME}.ipynb": EMPTY,
        "zoe/x.ipynb": EMPTY,
        "Untitled.ipynb": b"",
    }
    files |= {f"s02/{tiny.NAME}.ipynb": EMPTY, "s03/answer.py": b"x"}
    given.write_bytes(zipped(files))
    main(["grade", str(folder / "class"), str(given), "--trusted"])
    lines = capsys.readouterr().out.splitlines()
    left = [line for line in lines if line.startswith("left alone: ")]
    notes = [line for line in lines if line.startswith("note: ")]
    assert len(left) == 1 and "Untitled.ipynb" in left[0]
    assert any("which counts" in line for line in notes)
    assert any("s03 submitted no notebook" in line for line in notes)
