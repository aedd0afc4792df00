"""Downloads from an LMS become a course folder: each file in its place, none lost."""

import os
import time

import nbformat
import pytest
import tiny
from submitted import FRIDAY, MONDAY, encrypted, zipped

from grader.lessons.release import exercises, release
from grader.submissions import archives
from grader.submissions.collecting import collect
from grader.submissions.lms_names import safe_id

LESSONS = ["01_tiny", "02_more"]
FIRST = "01_tiny"


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "course"
    folder.mkdir()
    return folder


def download(folder, contents, name="submissions.zip", **options):
    path = folder / name
    path.write_bytes(zipped(contents, **options))
    return path


def placed(course) -> dict[str, bytes]:
    """Maps student/lesson to what lies there."""
    root = course / "submitted"
    found = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    for path in found:
        _, lesson, file = path.relative_to(root).parts
        assert file == f"{lesson}.ipynb"
    return {"/".join(p.relative_to(root).parts[:2]): d for p, d in found.items()}


def test_canvas(tmp_path, course):
    contents = {
        "lovelaceada_12345_67890_01_tiny.ipynb": b"ada",
        "babbagecharles_LATE_222_67891_01_tiny-1.ipynb": b"late",
        "o_brien_late_333_67892_02_more (1).ipynb": b"late too",
        "anon_aB3dE_67893_01_tiny.ipynb": b"anonymous",
        "LATE_anon_Zz9yX_67894_01_tiny.ipynb": b"anonymous and late",
    }
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {
        "12345/01_tiny": b"ada",
        "222/01_tiny": b"late",
        "333/02_more": b"late too",
        "anon_aB3dE/01_tiny": b"anonymous",
        "anon_Zz9yX/01_tiny": b"anonymous and late",
    }
    names = {"12345": "lovelaceada", "222": "babbagecharles", "333": "o_brien"}
    assert found.names == names
    assert {*found.placed} == {tuple(key.split("/")) for key in placed(course)}
    assert found.problems == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_newest_of_canvas_counts_by_its_number(tmp_path, course, newest_first):
    files = {
        "lovelaceada_12345_1067_01_tiny-1.ipynb": (b"new", MONDAY),
        "lovelaceada_12345_998_01_tiny-2.ipynb": (b"old", FRIDAY),
    }
    items = list(files.items())[:: 1 if newest_first else -1]
    found = collect([download(tmp_path, dict(items))], course, LESSONS)
    assert placed(course) == {"12345/01_tiny": b"new"}
    assert len(found.problems) == 1
    assert "newer than" in found.problems[0] and "count" in found.problems[0]
    assert "12345, 01_tiny: " in found.problems[0]


def test_moodle_in_folders(tmp_path, course):
    contents = {
        "Ada Lovelace_12345_assignsubmission_file_/01_tiny.ipynb": b"ada",
        "Ada Lovelace_12345_assignsubmission_onlinetext_/onlinetext.html": b"hi",
        "José-Luis Ñ_678_assignsubmission_file/sub/folder/02_more.ipynb": b"jose",
    }
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"12345/01_tiny": b"ada", "678/02_more": b"jose"}
    assert found.names == {"12345": "Ada Lovelace", "678": "José-Luis Ñ"}
    assert found.problems == []


def test_moodle_in_one_folder(tmp_path, course):
    contents = {
        "Ada Lovelace_12345_assignsubmission_file_01_tiny.ipynb": b"ada",
        "Bob_9_assignsubmission_file_bob_02_more.ipynb": b"bob",
        "Bob_9_assignsubmission_onlinetext_onlinetext.html": b"hi",
        "Group 1_77_assignsubmission_file_01_tiny.ipynb": b"group",
    }
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {
        "12345/01_tiny": b"ada",
        "9/02_more": b"bob",
        "77/01_tiny": b"group",
    }
    assert found.problems == []


def test_one_moodle_learner_whose_file_has_another_name_in_it(tmp_path, course):
    contents = {"Ada_12_assignsubmission_file_/bob_01_tiny.ipynb": b"ada"}
    collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"12/01_tiny": b"ada"}


@pytest.mark.parametrize(
    "path",
    [
        "12_assignsubmission_file_Mallory_assignsubmission_file_/01_tiny.ipynb",
        "Ada_12_assignsubmission_file_666_assignsubmission_file_/01_tiny.ipynb",
        "Ada_12_assignsubmission_file_666_assignsubmission_file_01_tiny.ipynb",
        "Mallory_666_assignsubmission_file_Ada_12_assignsubmission_file_01_tiny.ipynb",
    ],
)
def test_a_moodle_name_that_holds_the_mark_of_another_learner(tmp_path, course, path):
    contents = {"Ada_12_assignsubmission_file_/01_tiny.ipynb": b"ada", path: b"mallory"}
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"12/01_tiny": b"ada"}
    [problem] = found.problems
    assert "does not say whose it is" in problem


def test_a_moodle_download_that_its_learner_submitted_again(tmp_path, course):
    mine = "Ada_12_assignsubmission_file_"
    contents = {f"{mine}{mine}01_tiny.ipynb": b"ada"}
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"12/01_tiny": b"ada"}
    assert found.problems == []


PLAIN = {
    "flat": ["ada_01_tiny.ipynb", "bob_02_more (1).ipynb"],
    "flat, by number": ["ada_1.ipynb", "bob_02.ipynb"],
    "folders": ["ada/01_tiny.ipynb", "bob/02.ipynb"],
    "folders in a folder": ["class/ada/01_tiny.ipynb", "class/bob/2.ipynb"],
    "flat in a folder": ["class/ada_01_tiny.ipynb", "class/bob_02_more.ipynb"],
    "nbgrader's": [
        "ada/01_tiny/01_tiny.ipynb",
        "bob/02_more/my work.ipynb",
    ],
    "nbgrader's submitted": [
        "submitted/ada/01_tiny/01_tiny.ipynb",
        "submitted/bob/02_more/02_more.ipynb",
    ],
    "in a course": [
        "x/submitted/ada/01_tiny/01_tiny.ipynb",
        "x/submitted/bob/02_more/02_more.ipynb",
    ],
    "deep": ["ada/mine/final/01_tiny.ipynb", "bob/2.ipynb"],
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("names", PLAIN.values(), ids=PLAIN)
def test_plain_names(tmp_path, course, names, packed):
    contents = {name: name[-20:].encode() for name in names}
    if packed:
        given = download(tmp_path, contents | {"__MACOSX/ada/._01_tiny.ipynb": b"x"})
    else:
        given = tmp_path / "given"
        for name, data in contents.items():
            (given / name).parent.mkdir(parents=True, exist_ok=True)
            (given / name).write_bytes(data)
        (given / ".DS_Store").write_bytes(b"x")
        (given / ".ipynb_checkpoints").mkdir()
        (given / ".ipynb_checkpoints" / "ada_01_tiny.ipynb").write_bytes(b"x")
    found = collect([given], course, LESSONS)
    keys = ["ada/01_tiny", "bob/02_more"]
    assert placed(course) == dict(zip(keys, contents.values(), strict=True))
    assert found.problems == [] and found.names == {}


def test_one_learners_folder_is_no_class(tmp_path, course):
    contents = {"ada/01_tiny.ipynb": b"1", "ada/old/02_more.ipynb": b"2"}
    collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"1", "ada/02_more": b"2"}


def test_files_beside_a_notebook_are_no_problem(tmp_path, course):
    folder = "submitted/ada/01_tiny"
    names = [f"{folder}/{name}" for name in ("start.py", "timestamp.txt", "notes.txt")]
    contents = {name: b"x" for name in names} | {f"{folder}/01_tiny.ipynb": b"ada"}
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"ada"}
    assert found.problems == []


def test_single_files_and_archives_of_learners(tmp_path, course):
    (tmp_path / "ada_01_tiny.ipynb").write_bytes(b"ada")
    bob = download(tmp_path, {"01_tiny.ipynb": b"bob"}, "bob.zip")
    cleo = download(tmp_path, {"01_tiny/01_tiny.ipynb": b"cleo"}, "cleo.zip")
    collect([tmp_path / "ada_01_tiny.ipynb", bob, cleo], course, LESSONS)
    expected = {"ada/01_tiny": b"ada", "bob/01_tiny": b"bob", "cleo/01_tiny": b"cleo"}
    assert placed(course) == expected


def test_archive_of_each_learner(tmp_path, course):
    both = zipped({"01_tiny.ipynb": b"1", "x/02_more.ipynb": b"2", "notes.txt": b"x"})
    canvas = {"lovelaceada_123_4567_hand-in.zip": both}
    moodle = {"Bob_9_assignsubmission_file_/work.zip": both}
    plain = {"dora_01_tiny.zip": zipped({"my work.ipynb": b"3"})}
    given = [
        download(tmp_path, contents, f"{number}.zip")
        for number, contents in enumerate([canvas, moodle, plain])
    ]
    found = collect(given, course, LESSONS)
    assert placed(course) == {
        "123/01_tiny": b"1",
        "123/02_more": b"2",
        "9/01_tiny": b"1",
        "9/02_more": b"2",
        "dora/01_tiny": b"3",
    }
    assert found.problems == []


def test_folder_of_an_lmss_archives(tmp_path, course):
    (tmp_path / "given").mkdir()
    inner = zipped({"01_tiny.ipynb": b"inner"})
    download(tmp_path / "given", {"ada_1_4567_work.zip": inner}, "canvas.zip")
    download(tmp_path / "given", {"bob_01_tiny.ipynb": b"bob"}, "plain.zip")
    collect([tmp_path / "given"], course, LESSONS)
    assert placed(course) == {"1/01_tiny": b"inner", "bob/01_tiny": b"bob"}


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>Sign in</html>", b"%PDF-1.7", bytes(range(256)), b"PK\x03\x04 cut"],
    ids=["empty", "web page", "PDF", "binary", "cut archive"],
)
def test_damaged_files_are_placed_as_they_are(tmp_path, course, data):
    given = download(tmp_path, {"lovelaceada_123_4567_01_tiny.ipynb": data})
    assert collect([given], course, LESSONS).placed.keys() == {("123", FIRST)}
    assert placed(course) == {"123/01_tiny": data}


@pytest.mark.parametrize(
    "name, data",
    {
        "PDF": ("01_tiny.pdf", b"%PDF"),
        "PDF of another name": ("scan.pdf", b"%PDF"),
        "damaged archive": ("hand-in.zip", b"PK\x03\x04 cut"),
        "archive without a notebook": ("hand-in.zip", zipped({"a.txt": b"x"})),
        "archive of links": (
            "hand-in.zip",
            zipped({"01_tiny.ipynb": b"/etc/passwd"}, mode=0o120777),
        ),
    }.values(),
    ids=["PDF", "other name", "damaged", "no notebook", "links"],
)
def test_what_is_no_notebook_is_placed_where_the_lesson_is_clear(
    tmp_path, course, name, data
):
    given = download(tmp_path, {f"lovelaceada_123_4567_{name}": data})
    assert collect([given], course, [FIRST]).placed.keys() == {("123", FIRST)}
    assert placed(course) == {"123/01_tiny": data}


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_notebook_counts_before_a_newer_pdf(tmp_path, course, first):
    pdf = {"ada_1_9999_01_tiny.pdf": (b"%PDF", FRIDAY)}
    notebook = {"ada_1_1111_01_tiny.ipynb": (b"ada", MONDAY)}
    contents = pdf | notebook if first else notebook | pdf
    found = collect([download(tmp_path, contents)], course, [FIRST])
    assert placed(course) == {"1/01_tiny": b"ada"}
    assert found.problems == []
    later = download(tmp_path, pdf, "later.zip")
    collect([later], course, [FIRST])
    assert placed(course) == {"1/01_tiny": b"ada"}


def test_learner_without_any_file_is_reported(tmp_path, course):
    canvas = {
        "lovelaceada_123_text.html": b"my answer",
        "cleo_5_link.html": b"https://example.org",
        "dora_6_4567_notes.docx": b"x",
    }
    moodle = {"Bob_9_assignsubmission_onlinetext_/onlinetext.html": b"hello"}
    given = [download(tmp_path, canvas), download(tmp_path, moodle, "moodle.zip")]
    found = collect(given, course, LESSONS)
    assert placed(course) == {}
    assert sorted(found.problems) == [
        '123 submitted no notebook, only "lovelaceada_123_text.html".',
        '5 submitted no notebook, only "cleo_5_link.html".',
        '6 submitted no notebook, only "dora_6_4567_notes.docx".',
        '9 submitted no notebook, only "onlinetext.html".',
    ]


def test_lesson_is_known_by_its_cells_where_the_name_does_not_say(tmp_path, course):
    first = tiny.lesson(tmp_path / "one")
    text, checks = (
        one.replace("double", "triple").replace("negate", "halve")
        for one in (tiny.SOURCE, tiny.CHECKS)
    )
    path = tiny.write_course(tmp_path / "two", text, checks=checks)
    second = tiny.read_lesson(path, tiny.REPOSITORY)
    for name, notebook in zip(LESSONS, (first, second), strict=True):
        folder = course / "source" / name
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{name}.ipynb")
    work = release(second)
    exercises(work)["triple"].source = "# exercise: triple\ndef triple(x): ..."
    data = nbformat.writes(work).encode()
    contents = {"ada_1_4567_Untitled.ipynb": data, "bob_2_4568_Untitled.ipynb": b"?"}
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"1/02_more": data}
    assert found.problems == [
        '2: "submissions.zip/bob_2_4568_Untitled.ipynb" does not say which lesson it '
        "is. Rename it to 2_LESSON.ipynb.",
    ]
    named = download(tmp_path, contents, "jax-01_tiny submissions.zip")
    collect([named], course, LESSONS)
    assert placed(course)["2/01_tiny"] == b"?"


def test_file_without_an_owner_is_reported(tmp_path, course):
    (tmp_path / "01_tiny.ipynb").write_bytes(b"whose?")
    found = collect([tmp_path / "01_tiny.ipynb"], course, LESSONS)
    assert placed(course) == {}
    assert found.problems[0].startswith('"01_tiny.ipynb" does not say whose it is.')


def test_later_download_replaces_and_an_older_one_does_not(tmp_path, course):
    monday = download(tmp_path, {"ada_01_tiny.ipynb": b"old"}, "monday.zip")
    friday = download(
        tmp_path, {"ada_01_tiny.ipynb": b"new"}, "friday.zip", when=FRIDAY
    )
    assert collect([monday], course, LESSONS).problems == []
    assert collect([monday], course, LESSONS).placed.keys() == {("ada", FIRST)}
    found = collect([friday], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"new"}
    assert "is newer than the file of an earlier collection" in found.problems[0]
    found = collect([monday], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"new"}
    assert not found.placed
    assert "is not newer than the file of an earlier collection" in found.problems[0]
    path = course / "submitted" / "ada" / FIRST / f"{FIRST}.ipynb"
    assert time.localtime(path.stat().st_mtime)[:5] == FRIDAY[:5]


@pytest.mark.parametrize("newest_first", [False, True])
def test_newest_of_two_files_counts_and_is_reported(tmp_path, course, newest_first):
    items = [
        ("ada/01_tiny.ipynb", (b"old", MONDAY)),
        ("ada/01_tiny (1).ipynb", (b"new", FRIDAY)),
    ]
    contents = dict(items[::-1] if newest_first else items)
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"new"}
    assert len(found.problems) == 1 and "newer than" in found.problems[0]


def test_time_in_a_learners_own_archive_does_not_count(tmp_path, course):
    forged = zipped({"01_tiny.ipynb": (b"old", (2099, 1, 1, 0, 0, 0))})
    contents = {
        "ada_01_tiny.zip": (forged, MONDAY),
        "ada_01_tiny.ipynb": (b"new", FRIDAY),
    }
    collect([download(tmp_path, contents)], course, LESSONS)
    assert placed(course) == {"ada/01_tiny": b"new"}


def test_same_file_twice_is_no_problem(tmp_path, course):
    contents = {"ada_01_tiny.ipynb": b"x", "ada_01_tiny (1).ipynb": b"x"}
    assert collect([download(tmp_path, contents)], course, LESSONS).problems == []


ODD = {
    "newline": "ada\nlovelace",
    "right-to-left": "ada\u202egpj.exe",
    "long": "a" * 300,
    "accents": "Zoë Ångström",
    "leading dash": "-rf",
    "leading dot": ".ssh",
    "trailing dot": "ada.",
    "only signs": "***",
    "Chinese": "李雷",
    "formula": "=cmd|' calc'!A0",
    "control": "ada\x1b[31m",
}


@pytest.mark.parametrize("student", ODD.values(), ids=ODD)
def test_odd_names_get_a_safe_stable_id(tmp_path, course, student):
    given = download(tmp_path, {f"{student}/01_tiny.ipynb": b"x"})
    found = collect([given], course, LESSONS)
    ((name, _),) = found.placed
    assert name == safe_id(student) != student
    assert name.isascii() and len(name) <= 64 and name[0].isalnum()
    assert placed(course) == {f"{name}/01_tiny": b"x"}
    assert f"cannot name a folder: filed as {name}." in found.problems[0]
    assert all(line.isprintable() for line in found.problems)
    assert [*found.names] == [name]


def test_ids_do_not_depend_on_how_accents_are_encoded():
    assert safe_id("Zoë") == safe_id("Zoe\u0308") != safe_id("Zoe")
    assert safe_id("ada@example.org") == "ada@example.org"


@pytest.mark.parametrize(
    "name",
    ["../../ada_01_tiny.ipynb", "/tmp/ada_01_tiny.ipynb", "a\\..\\..\\x_1.ipynb"],
)
def test_nothing_leaves_the_course(tmp_path, course, name):
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    given = download(tmp_path, {name: b"x"})
    found = collect([given], course, LESSONS)
    assert {p for p in tmp_path.rglob("*") if p.is_file()} - before == {given}
    assert "leads out of the archive" in " ".join(found.problems)


def test_links_and_pipes_are_reported_and_not_followed(tmp_path, course):
    given = tmp_path / "given"
    (given / "ada").mkdir(parents=True)
    (tmp_path / "secret.ipynb").write_bytes(b"secret")
    (given / "ada" / "01_tiny.ipynb").symlink_to(tmp_path / "secret.ipynb")
    os.mkfifo(given / "ada" / "02_more.ipynb")
    (given / "bob").symlink_to(tmp_path)
    links = zipped({"cleo_01_tiny.ipynb": b"/etc/passwd"}, mode=0o120777)
    (tmp_path / "links.zip").write_bytes(links)
    found = collect([given, tmp_path / "links.zip"], course, LESSONS)
    assert placed(course) == {} and not found.placed
    assert sorted(found.problems) == [
        '"given/ada/01_tiny.ipynb" is a link: not collected.',
        '"given/ada/02_more.ipynb" is a named pipe: not collected.',
        '"given/bob" is a link: not collected.',
        '"links.zip/cleo_01_tiny.ipynb" is a link: not collected.',
    ]


def test_archive_with_a_password_is_reported(tmp_path, course):
    data = encrypted(zipped({"ada_01_tiny.ipynb": b"x"}))
    (tmp_path / "a.zip").write_bytes(data)
    found = collect([tmp_path / "a.zip"], course, LESSONS)
    assert "is encrypted" in found.problems[0] and not found.placed


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"hello"], ids=repr)
def test_damaged_download_is_reported_and_the_others_are_collected(
    tmp_path, course, data
):
    (tmp_path / "bad.zip").write_bytes(data)
    good = download(tmp_path, {"ada_01_tiny.ipynb": b"x"})
    found = collect([tmp_path / "bad.zip", good], course, LESSONS)
    assert found.placed.keys() == {("ada", FIRST)}
    assert found.problems[0].startswith('"bad.zip" is a damaged archive')


def test_damaged_file_in_a_download_costs_only_that_file(tmp_path, course):
    contents = {"ada_01_tiny.ipynb": b"a" * 500, "bob_01_tiny.ipynb": b"bob"}
    path = download(tmp_path, contents)
    data = bytearray(path.read_bytes())
    data[50] ^= 255
    path.write_bytes(data)
    found = collect([path], course, LESSONS)
    assert placed(course) == {"bob/01_tiny": b"bob"}
    assert "is damaged" in found.problems[0]


def test_bombs_are_refused_by_what_comes_out(tmp_path, course, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE", 10**6)
    monkeypatch.setattr(archives, "MAX_INNER", 3 * 10**6)
    inner = zipped({f"0{n}_x.ipynb": bytes(10**6 - n) for n in range(9)})
    contents = {
        "ada_01_tiny.ipynb": bytes(10**6 + 1),
        "bob_01_tiny.zip": inner,
        "cleo_01_tiny.ipynb": b"cleo",
    }
    found = collect([download(tmp_path, contents)], course, [FIRST])
    assert "cleo/01_tiny" in placed(course) and "ada/01_tiny" not in placed(course)
    text = " ".join(found.problems)
    assert "limit is 0 MB" in text and "more than an archive may hold" in text


def test_download_with_too_many_files_is_refused(tmp_path, course, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    given = download(tmp_path, {f"{n}_01_tiny.ipynb": b"x" for n in range(4)})
    assert (
        "holds 4 files; the limit is 3" in collect([given], course, LESSONS).problems[0]
    )


@pytest.mark.parametrize(
    "name", ["ada/work.zip", "ada.zip", "Ada_12_assignsubmission_file_/work.zip"]
)
@pytest.mark.parametrize(
    "limit, reason",
    [
        ({"MAX_ENTRIES": 3}, "holds 4 files; the limit is 3"),
        ({"MAX_FILE": 99}, "has 1 MB; the limit is 0 MB"),
    ],
    ids=["files", "bytes"],
)
def test_a_learners_archive_over_a_limit_is_left_with_the_reason(
    tmp_path, course, monkeypatch, name, limit, reason
):
    for constant, value in limit.items():
        monkeypatch.setattr(archives, constant, value)
    inside = zipped({f"{n}.ipynb": b"x" for n in range(4)})
    bob = name.replace("Ada_12", "Bob_13").replace("ada", "bob")
    bob = bob.replace(".zip", f"_{FIRST}.ipynb")
    given = download(tmp_path, {name: inside, bob: b"x"})
    found = collect([given], course, [FIRST])
    assert [*placed(course).values()] == [b"x"]
    [line] = [line for line in found.problems if "zip" in line.partition("/")[2]]
    assert f'{name}" {reason}. Ask for the notebook alone.' in line


def test_what_is_in_the_way_is_reported(tmp_path, course):
    (course / "submitted" / "ada" / FIRST / f"{FIRST}.ipynb").mkdir(parents=True)
    (course / "submitted" / "bob").write_bytes(b"a file")
    contents = {"ada_01_tiny.ipynb": b"x", "bob_1.ipynb": b"y", "cleo_1.ipynb": b"z"}
    found = collect([download(tmp_path, contents)], course, LESSONS)
    assert found.placed.keys() == {("cleo", FIRST)}
    for problem, student in zip(found.problems, ["ada", "bob"], strict=True):
        assert (
            f"Something else is in the place of {course}/submitted/{student}/"
            in problem
        )


def test_full_disk_leaves_no_half_a_file(tmp_path, course, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    given = download(tmp_path, {"ada_01_tiny.ipynb": b"x"})
    with pytest.raises(OSError, match="No space left"):
        collect([given], course, LESSONS)
    assert placed(course) == {}
