"""Feedback goes back as Moodle, Canvas and nbgrader's exchange take it."""

import io
import re
import zipfile

import nbformat
import pytest
import tiny
from classes import make_class, printed
from published import hand_in_empty, publish_result

from grader.__main__ import main
from grader.atomic_files import write
from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.purge import purge
from grader.classroom.returning import return_feedback
from grader.results import Status
from grader.submissions.collecting import collect

NAME = tiny.NAME


@pytest.fixture
def folder(tmp_path):
    make_class(tmp_path)
    return tmp_path


def pack(folder, kind):
    """Returns the exit status, what was printed, and the archive's files."""
    path = folder / "back.zip"
    status, lines = printed(return_feedback, folder / "class", "01", kind, path)
    with zipfile.ZipFile(path) as archive:
        return status, lines, {one: archive.read(one) for one in archive.namelist()}


def came_as(folder, student, name):
    """Says under which name a learner's file was in the download."""
    submission = hand_in_empty(folder, student)
    write(Classroom(folder / "class").received_path(submission), name)


def page(folder, student):
    return (
        folder / "class" / "feedback" / student / NAME / f"{NAME}.html"
    ).read_bytes()


def test_each_learners_page_is_packed_and_who_has_none_is_named(folder):
    publish_result(folder, "ada")
    publish_result(
        folder, "bob", 0, 0, status=Status.STUDENT_ERROR, reasons=("Empty.",)
    )
    publish_result(folder, "cleo", status=Status.NEEDS_REVIEW)
    publish_result(folder, "dan", status=Status.INFRA_ERROR)
    hand_in_empty(folder, "eve")
    status, lines, files = pack(folder, "zip")
    assert files == {f"{one}/{NAME}.html": page(folder, one) for one in ("ada", "bob")}
    assert status == 1
    assert lines[1:] == [
        f"not in it: cleo {NAME} (NEEDS_REVIEW, no score: see `explain`)",
        f"not in it: dan {NAME} (INFRA_ERROR, no score: see `explain`)",
        f"not in it: eve {NAME} (not graded yet: run `grade`)",
    ]


def test_points_that_a_person_has_just_given_are_on_the_page(folder):
    publish_result(folder, "ada", status=Status.NEEDS_REVIEW)
    with gradebook.opened(Classroom(folder / "class")) as book:
        for grade in book.find_submission_notebook(NAME, NAME, "ada").grades:
            grade.manual_score = 0.5
    status, _, files = pack(folder, "zip")
    assert status == 0 and b"1 of 3 points" in files[f"ada/{NAME}.html"]


def moodles_owner(path):
    """Reads a path as Moodle's importer does: (number, plugin, the file's name)."""
    folder, _, rest = path.partition("/")
    parts = folder.split("_", 4)
    assert len(parts) == 5 and parts[1].isdigit(), path
    return parts[1], "_".join(parts[2:4]), parts[4] + rest


@pytest.mark.parametrize(
    "name",
    [
        f"Ada Lovelace_12345_assignsubmission_file/{NAME}.ipynb",
        f"Ada Lovelace_12345_assignsubmission_file_/my work.zip/{NAME}.ipynb",
        f"Ada Lovelace_12345_assignsubmission_file_{NAME}.ipynb",
    ],
    ids=["folder", "older folder", "flat"],
)
def test_moodle_finds_the_learner_of_each_file(folder, name):
    came_as(folder, "12345", name)
    publish_result(folder, "12345")
    status, _, files = pack(folder, "moodle")
    [(path, content)] = files.items()
    assert status == 0 and content == page(folder, "12345")
    assert moodles_owner(path) == ("12345", "assignsubmission_file", f"{NAME}.html")


def test_work_that_did_not_come_from_moodle_is_named(folder):
    """A number in an id may be Canvas's, and somebody else's in Moodle."""
    came_as(folder, "101", f"lovelaceada_101_4567_{NAME}.ipynb")
    publish_result(folder, "101")
    status, lines, files = pack(folder, "moodle")
    assert status == 1 and files == {}
    assert f"not in it: 101 {NAME}" in lines[1] and "with the download" in lines[1]


def canvas_owner(name):
    """Reads a name as Canvas does: the numbers of the learner and of the file."""
    parts = [part for part in name.split("_") if part != "LATE"]
    if parts[0] == "anon":
        return tuple(parts[1:3])
    return tuple([part for part in parts if re.fullmatch(r"\d+", part)][:2])


@pytest.mark.parametrize(
    ("student", "name", "owner"),
    [
        ("101", f"lovelaceada_101_4567_{NAME}-1.ipynb", ("101", "4567")),
        ("101", f"lovelaceada_LATE_101_4567_{NAME}.ipynb", ("101", "4567")),
        ("anon_aB3dE", f"anon_aB3dE_4567_{NAME}.ipynb", ("aB3dE", "4567")),
    ],
)
def test_canvas_gets_the_graded_notebook_under_the_name_of_the_file(
    folder, student, name, owner
):
    """It shows every file that it gets as the learner's, which is a notebook."""
    came_as(folder, student, name)
    publish_result(folder, student, negate=0, notes=("It was renamed.",))
    status, _, files = pack(folder, "canvas")
    assert status == 0 and [*files] == [name]
    assert canvas_owner(name) == owner
    notebook = nbformat.reads(files[name].decode(), as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].source == "1 of 3 points\n\nIt was renamed."
    assert "negate" in files[name].decode() and "-7" not in files[name].decode()


def test_canvas_gets_a_zip_for_a_zip(folder):
    came_as(folder, "101", f"lovelaceada_101_4567_work.zip/a/{NAME}.ipynb")
    publish_result(folder, "101")
    [(name, content)] = pack(folder, "canvas")[2].items()
    assert name == "lovelaceada_101_4567_work.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as inner:
        assert inner.read(f"{NAME}.html") == page(folder, "101")


def test_a_file_that_did_not_come_from_canvas_is_named(folder):
    publish_result(folder, "101")
    came_as(folder, "101", f"101/{NAME}.ipynb")
    status, lines, files = pack(folder, "canvas")
    assert status == 1 and files == {} and "run `grade` with the download" in lines[1]


def test_the_download_tells_the_names_of_the_files_that_count(folder):
    download = folder / "canvas.zip"
    ends = ("4567", ""), ("4568", "-1")  # as Canvas names a second file
    names = [f"lovelaceada_101_{n}_{NAME}{mark}.ipynb" for n, mark in ends]
    with zipfile.ZipFile(download, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    for _ in range(2):  # and again, when nothing is new
        found = collect([download], folder / "class", [NAME])
        assert found.placed["101", NAME].path.split("/")[-1] == names[1]


def test_the_same_feedback_is_packed_into_the_same_bytes(folder):
    publish_result(folder, "ada")
    path = folder / "class" / "grading" / f"feedback-{NAME}-zip.zip"
    packed = []
    for _ in range(2):
        assert main(["return", str(folder / "class"), "01"]) == 0
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]


def test_purge_removes_archives_and_names_of_files(folder):
    came_as(folder, "101", f"lovelaceada_101_4567_{NAME}.ipynb")
    publish_result(folder, "101")
    printed(return_feedback, folder / "class", "01", "canvas")
    printed(purge, folder / "class", ["101"], apply=True)
    left = [path for path in folder.rglob("*") if "101" in path.name]
    assert left == [] and not [*(folder / "class" / "grading").glob("*.zip")]


def exchange_of(folder):
    exchange = folder / "exchange"
    exchange.mkdir(exist_ok=True)
    exchange.chmod(0o777)
    config = folder / "class" / "nbgrader_config.py"
    with open(config, "a", encoding="utf-8") as file:
        file.write(f'c.Exchange.root = "{exchange}"\n')
    return exchange


@pytest.mark.filterwarnings(
    "ignore:unclosed file"
)  # nbgrader leaves timestamp.txt open
def test_feedback_goes_into_the_exchange_for_whom_has_submitted_there(folder):
    from nbgrader.utils import notebook_hash

    exchange = exchange_of(folder)
    for student in ("ada", "bob"):
        publish_result(folder, student)
    submitted = folder / "class" / "submitted" / "ada" / NAME
    (submitted / "timestamp.txt").write_text("2026-03-28 09:00:00.000000 UTC")
    (submitted / "submission_secret.txt").write_text("s3cret")
    status, lines = printed(return_feedback, folder / "class", "01", "exchange")
    [found] = exchange.rglob("*.html")
    assert found.stem == notebook_hash(secret="s3cret", notebook_id=NAME)
    assert found.read_bytes() == page(folder, "ada")
    assert status == 1
    assert lines[-1] == f"not in it: bob {NAME} (not submitted by the exchange)"


def test_an_exchange_that_is_not_there_is_named(folder, capsys):
    exchange = exchange_of(folder)
    exchange.rmdir()
    publish_result(folder, "ada")
    submitted = folder / "class" / "submitted" / "ada" / NAME
    for name in ("timestamp.txt", "submission_secret.txt"):
        (submitted / name).write_text("2026-03-28 09:00:00 UTC")
    assert main(["return", str(folder / "class"), "01", "--format", "exchange"]) == 2
    assert "nbgrader's exchange: Unwritable directory" in (
        error := capsys.readouterr().err
    )
    assert str(exchange) in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["02"], 'no lesson "02". It has: 01_tiny'),
        (["01"], "No submission for 01_tiny has a final grade yet"),
        (["01", "--format", "mail"], "choose zip, moodle, canvas, exchange"),
        (["01", "--format", "exchange", "--to", "x"], "leave out --to"),
    ],
)
def test_what_cannot_be_returned_is_said(folder, capsys, arguments, said):
    assert main(["return", str(folder / "class"), *arguments]) == 2
    assert said in capsys.readouterr().err
