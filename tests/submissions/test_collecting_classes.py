"""What real classes hand in: each learner's own notebook counts, none is lost."""

import copy
import io
import json
import os
import shutil
import time
import zipfile

import pytest
from submitted import FRIDAY, MONDAY, zipped

from grader import ROOT
from grader.lessons.release import nbgrader_metadata
from grader.submissions.collecting import Fate, collect
from grader.submissions.lms_names import safe_id

LESSONS = FIRST, SECOND = ["01_pmap_spmd", "02_collectives"]
OURS = {
    path: (ROOT / path).read_bytes()
    for name in LESSONS
    for path in (
        f"lessons/{name}.ipynb",
        f"lessons/ko/{name}.ipynb",
        f"solutions/{name}.ipynb",
    )
}
STUB = OURS[f"lessons/{FIRST}.ipynb"]
SOLVED = OURS[f"solutions/{FIRST}.ipynb"]


def work(text="ada", lesson=FIRST, folder="lessons") -> bytes:
    """Makes a lesson in whose first exercise a learner wrote something."""
    notebook = copy.deepcopy(json.loads(OURS[f"{folder}/{lesson}.ipynb"]))
    cell = next(c for c in notebook["cells"] if nbgrader_metadata(c).get("solution"))
    cell["source"] = [f"# exercise: {cell['id']}\n", f"def {cell['id']}(): '{text}'"]
    return json.dumps(notebook).encode()


ADA, BOB, CYD = work("ada"), work("bob"), work("cyd")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "source"
    for name in LESSONS:
        (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / f"{name}.ipynb", folder / name)
    return folder


@pytest.fixture
def course(tmp_path, source):
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "source").symlink_to(source)
    return folder


def placed(course) -> dict[str, bytes]:
    root = course / "submitted"
    found = {path: path.read_bytes() for path in root.glob("*/*/*")}
    return {"/".join(p.relative_to(root).parts[:2]): d for p, d in found.items()}


def put(folder, contents):
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def given_as(kind, tmp_path, contents):
    if kind == "folder":
        return put(tmp_path / "given", contents)
    path = tmp_path / "submissions.zip"
    path.write_bytes(zipped(contents))
    return path


def fates(found) -> dict[str, list[str]]:
    """Lists the files of each fate, without the download's name."""
    by_fate = {fate: [] for fate in Fate}
    for path, fate in found.account:
        by_fate[fate].append(path.partition("/")[2])
    return by_fate


def one(folder, names):
    """Gives the files of a class to their learners: who is named first in a path."""
    return {f"{folder}{name}": data for name, data in names.items()}


NAMED = {
    f"ada_{FIRST}.ipynb": ADA,
    f"bob_{FIRST}.ipynb": BOB,
    f"cyd_{FIRST}.ipynb": CYD,
}
THREE = {f"ada/{FIRST}": ADA, f"bob/{FIRST}": BOB, f"cyd/{FIRST}": CYD}
TWO = {f"ada/{FIRST}": ADA, f"bob/{FIRST}": BOB}
# What comes in, and what of it has to be left for a person.
UNNAMED = {
    "flat, with an untitled one": (NAMED, ["Untitled.ipynb"], THREE),
    "flat, with two copies of ours": (
        NAMED,
        [f"Copy of {FIRST}.ipynb", f"{FIRST} (1).ipynb"],
        THREE,
    ),
    "flat, with a final version": (NAMED, ["final_v2.ipynb"], THREE),
    "in a folder of the lesson": (
        one("Lesson 1/", NAMED),
        [f"Lesson 1/Copy of {FIRST}.ipynb"],
        THREE,
    ),
    "in a folder of any name": (
        one("Advanced JAX/", NAMED),
        ["Advanced JAX/Untitled.ipynb"],
        THREE,
    ),
    "beside folders of learners": (
        {f"ada/{FIRST}.ipynb": ADA, "bob/Untitled3.ipynb": BOB},
        ["Untitled.ipynb"],
        TWO,
    ),
    "in a section": (
        {f"Section A/ada_{FIRST}.ipynb": ADA, f"Section B/bob_{FIRST}.ipynb": BOB},
        ["Section B/homework.ipynb"],
        TWO,
    ),
    "names alone": (
        {"ada.ipynb": ADA, "bob.ipynb": BOB},
        ["Untitled.ipynb", "my homework.ipynb"],
        TWO,
    ),
}


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("contents, left, expected", UNNAMED.values(), ids=UNNAMED)
def test_a_file_that_names_nobody_is_left_alone_and_drags_no_other_along(
    tmp_path, course, kind, contents, left, expected
):
    contents = contents | dict.fromkeys(left, work("nobody"))
    found = collect([given_as(kind, tmp_path, contents)], course, LESSONS)
    assert placed(course) == expected
    assert sorted(fates(found)[Fate.FOR_A_PERSON]) == sorted(left)
    for name in left:
        [line] = [line for line in found.problems if f'/{name}"' in line]
        assert "does not say whose it is" in line
    count = "1 is" if len(left) == 1 else f"{len(left)} are"
    total = len(contents)
    assert found.summary == (
        f"{total} files: {len(expected)} count, {count} left for a person."
    )


LAYOUTS = {
    "the lesson's folder": {f"{FIRST}/ada.ipynb": ADA, f"{FIRST}/bob.ipynb": BOB},
    "any folder": {"Kurs 7/ada.ipynb": ADA, "Kurs 7/bob.ipynb": BOB},
    "the lesson first": {f"{FIRST}_ada.ipynb": ADA, f"{FIRST} - bob.ipynb": BOB},
    "the lesson first, in a folder": {
        f"Lesson 1 (File responses)/{FIRST} - ada.ipynb": ADA,
        f"Lesson 1 (File responses)/{FIRST} (1) - bob.ipynb": BOB,
    },
    "late": {f"late/ada_{FIRST}.ipynb": ADA, f"bob_{FIRST}.ipynb": BOB},
    "late, and in a folder of one's own": {
        f"late/ada/{FIRST}.ipynb": ADA,
        f"bob/{FIRST}.ipynb": BOB,
    },
    "late, in a zip of one's own": {
        "late submissions/ada.zip": zipped({"Untitled.ipynb": ADA}),
        f"bob_{FIRST}.ipynb": BOB,
    },
    "sections with folders": {
        f"Section A/ada/{FIRST}.ipynb": ADA,
        f"Section B/bob/answers/{FIRST}.ipynb": BOB,
    },
    "a wrapper in a wrapper": {
        f"Spring/Week 1/ada/{FIRST}.ipynb": ADA,
        f"Spring/Week 1/bob/{FIRST}.ipynb": BOB,
    },
    "zips": {
        "ada.zip": zipped({"a.ipynb": ADA}),
        "bob.zip": zipped({"x/1.ipynb": BOB}),
    },
    "ILIAS": {
        f"Lesson 1/Submissions/ada/{FIRST}.ipynb": ADA,
        f"Lesson 1/Submissions/bob/{FIRST}.ipynb": BOB,
        "Lesson 1/status.xlsx": b"x",
    },
}


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("contents", LAYOUTS.values(), ids=LAYOUTS)
def test_learners_are_told_apart_in_every_layout(tmp_path, course, kind, contents):
    found = collect([given_as(kind, tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    assert found.problems == []


@pytest.mark.parametrize("num_folders", [1, 2])
def test_folders_of_more_learners_than_folders_are_of_sections(
    tmp_path, course, num_folders
):
    folders = ["Kim's", "Lee's"][:num_folders] * 2
    names = zip(folders, NAMED.items(), strict=False)
    contents = {f"{folder}/{name}": data for folder, (name, data) in names}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert set(placed(course).values()) == set(contents.values())
    assert placed(course).items() <= THREE.items()
    assert found.problems == []


def test_as_many_folders_as_names_are_the_learners(tmp_path, course):
    contents = {f"one/ada_{FIRST}.ipynb": ADA, f"two/ada_{FIRST}.ipynb": BOB}
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"one/{FIRST}": ADA, f"two/{FIRST}": BOB}


def test_a_learner_in_two_sections_is_one_and_the_newer_file_counts(tmp_path, course):
    first, second = (f"Section {name}/ada_{FIRST}.ipynb" for name in "AB")
    contents = {first: (ADA, FRIDAY), second: (BOB, MONDAY)}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": ADA}
    assert found.problems == [
        f'ada, {FIRST}: "submissions.zip/{first}" is newer than '
        f'"submissions.zip/{second}", and counts.'
    ]
    assert found.summary == "2 files: 1 counts, 1 is older."


NUMBERS = {
    "section_number": "101_2026000{}_01_pmap_spmd.ipynb",
    "year_number": "2026_100{}_01_pmap_spmd.ipynb",
    "name_section_number": "kim{}_101_2026000{}_01_pmap_spmd.ipynb",
    "two of a group": "2026000{}_2027000{}_01_pmap_spmd.ipynb",
    "number": "2026-1000{}.ipynb",
}


@pytest.mark.parametrize("pattern", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_people_write_are_not_taken_for_an_lmss(tmp_path, course, pattern):
    contents = {pattern.replace("{}", str(n)): work(str(n)) for n in range(1, 6)}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    ids = {name: name.partition("_01")[0].partition(".")[0] for name in contents}
    assert placed(course) == {
        f"{ids[name]}/{FIRST}": data for name, data in contents.items()
    }
    assert found.problems == []


BLACKBOARD = "Lesson1_{}_attempt_2026-03-{}-09-00-00{}"
BRIGHTSPACE = "{} - {} - Mar {}, 2026 1205 PM/01_pmap_spmd.ipynb"
LMS = {
    "Blackboard": (
        {
            BLACKBOARD.format("ada", 29, f"_{FIRST}.ipynb"): ADA,
            BLACKBOARD.format("ada", 28, f"_{FIRST}.ipynb"): work("older"),
            BLACKBOARD.format("ada", 29, ".txt"): b"Name: Ada Lovelace (ada)",
            BLACKBOARD.format("bob", 28, "_Untitled.ipynb"): BOB,
            BLACKBOARD.format("bob", 28, ".txt"): b"Name: Bob (bob)",
        },
        ["ada", "bob"],
    ),
    "Brightspace": (
        {
            BRIGHTSPACE.format("13394-80551", "Ada Lovelace", 29): ADA,
            BRIGHTSPACE.format("13394-80551", "Ada Lovelace", 28): work("older"),
            BRIGHTSPACE.format("13395-80551", "Bob-Lee - Byron", 28): BOB,
            "index.html": b"<html>",
        },
        ["13394", "13395"],
    ),
    "Brightspace in one folder": (
        {
            f"13394-80551 - Ada - 29 March, 2026 905 AM - {FIRST}.ipynb": ADA,
            f"13394-80551 - Ada - 28 March, 2026 905 AM - {FIRST}.ipynb": work("old"),
            f"13395-80551 - Bob - 28 March, 2026 905 AM - {FIRST}.ipynb": BOB,
            "index.html": b"<html>",
        },
        ["13394", "13395"],
    ),
    "Sakai": (
        {
            f"L1/Lovelace, Ada(ada)/Submission attachment(s)/{FIRST}.ipynb": ADA,
            "L1/Lovelace, Ada(ada)/timestamp.txt": b"20260328090000000",
            "L1/Lovelace, Ada(ada)/comments.txt": b"",
            f"L1/Byron, Bob(bob)/Submission attachment(s)/{FIRST}.ipynb": BOB,
            "L1/grades.csv": b"Display ID,ID",
        },
        ["ada", "bob"],
    ),
    "Moodle": (
        {
            f"Ada Lovelace_12_assignsubmission_file_/{FIRST}.ipynb": ADA,
            "Bob_13_assignsubmission_file_/bob/1. final.ipynb": BOB,
        },
        ["12", "13"],
    ),
    "Canvas": (
        {
            f"lovelaceada_12_4567_{FIRST}.ipynb": ADA,
            "byronbob_LATE_13_4568_Untitled3.ipynb": BOB,
        },
        ["12", "13"],
    ),
}


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("contents, ids", LMS.values(), ids=LMS)
def test_downloads_of_an_lms(tmp_path, course, kind, contents, ids):
    given = given_as(kind, tmp_path, contents)
    found = collect([given], course, LESSONS)
    assert placed(course) == {f"{ids[0]}/{FIRST}": ADA, f"{ids[1]}/{FIRST}": BOB}
    assert all("newer" in line for line in found.problems)
    assert len(found.problems) == len(fates(found)[Fate.OLDER])


def test_the_times_that_an_lms_writes_are_those_of_the_submission(tmp_path, course):
    contents = {
        BLACKBOARD.format("ada", 29, f"_{FIRST}.ipynb"): (ADA, MONDAY),
        BLACKBOARD.format("ada", 28, f"_{FIRST}.ipynb"): (BOB, FRIDAY),
    }
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    path = course / "submitted" / "ada" / FIRST / f"{FIRST}.ipynb"
    assert path.read_bytes() == ADA
    assert time.localtime(path.stat().st_mtime)[:4] == (2026, 3, 29, 9)


# What a learner's own archive or folder holds cannot become another learner's.
FORGED = {
    "nbgrader's layout": {f"bob/{FIRST}/{FIRST}.ipynb": ADA},
    "nbgrader's submitted": {f"submitted/bob/{FIRST}/{FIRST}.ipynb": ADA},
    "a folder": {f"bob/{FIRST}.ipynb": ADA},
    "a file's name": {f"bob_{FIRST}.ipynb": ADA},
    "Moodle's mark": {f"bob_assignsubmission_file_/{FIRST}.ipynb": ADA},
    "Blackboard's mark": {BLACKBOARD.format("bob", 29, f"_{FIRST}.ipynb"): ADA},
}
PLACES = {
    "a zip": "ada.zip",
    "a zip in a folder": "ada/work.zip",
    "a zip in a section": "Section A/ada.zip",
    "a zip of the lesson's name": f"ada_{FIRST}.zip",
    "a zip in Moodle's folder": "Ada_ada_assignsubmission_file_/work.zip",
}


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("inside", FORGED.values(), ids=FORGED)
def test_nothing_in_a_learners_archive_makes_it_another_learners(
    tmp_path, course, kind, place, inside
):
    archive = zipped(inside, when=FRIDAY)
    bob = "Bob_bob_assignsubmission_file_/" if "Moodle" in place else "bob_"
    bob = f"Bob_13_assignsubmission_file_/{FIRST}.ipynb" if "Ada_" in place else bob
    name = bob if bob.endswith(".ipynb") else f"{bob}{FIRST}.ipynb"
    mine = place.replace("Ada_ada_", "Ada_12_")
    given = given_as(kind, tmp_path, {mine: archive, name: BOB})
    found = collect([given], course, LESSONS)
    ada, bob = ("12", "13") if "Ada_12" in mine else ("ada", "bob")
    assert placed(course) == {f"{ada}/{FIRST}": ADA, f"{bob}/{FIRST}": BOB}
    assert all("bob" in line and ada in line for line in found.problems)


@pytest.mark.parametrize(
    "path",
    [
        f"ada/bob_{FIRST}.ipynb",
        f"ada/mine/bob_{FIRST}.ipynb",
        f"Bob_9_assignsubmission_file_{FIRST}.ipynb",
        f"ada/Bob_9_assignsubmission_file_/{FIRST}.ipynb",
    ],
)
def test_what_may_be_another_learners_is_left_for_a_person(tmp_path, course, path):
    contents = {f"bob/{FIRST}.ipynb": BOB, f"cyd/{FIRST}.ipynb": CYD, path: ADA}
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    others = {key: data for key, data in placed(course).items() if data != ADA}
    assert others == {f"bob/{FIRST}": BOB, f"cyd/{FIRST}": CYD}
    assert {key for key, data in placed(course).items() if data == ADA} <= {
        f"ada/{FIRST}"
    }


@pytest.mark.parametrize(
    "contents",
    [
        {"Kurs 7/ada.ipynb": ADA, "Kurs 7/bob.ipynb": BOB},
        {"Monday/ada/1.ipynb": ADA, "Monday/bob/1.ipynb": BOB},
        {
            "Monday/Ada_1_assignsubmission_file_/1.ipynb": ADA,
            "Monday/Bob_2_assignsubmission_file_/1.ipynb": BOB,
        },
        {"monday.zip": zipped({f"ada_{FIRST}.ipynb": ADA, f"bob_{FIRST}.ipynb": BOB})},
    ],
    ids=["files", "folders", "Moodle's", "an archive"],
)
def test_a_folder_that_may_hold_several_learners_is_none(tmp_path, course, contents):
    contents = contents | {f"Tuesday/{FIRST}.ipynb": CYD}
    found = collect([given_as("folder", tmp_path, contents)], course, LESSONS)
    for data in (ADA, BOB):
        assert list(placed(course).values()).count(data) <= 1
    if not any(path.startswith("Kurs") for path in contents):
        assert placed(course) == {f"Tuesday/{FIRST}": CYD}
        [line] = found.problems
        assert "ada" in line.casefold() and "bob" in line.casefold()


def repository(mine=ADA, top="", **others) -> dict[str, bytes]:
    """Lists the course's repository, in which a learner wrote `mine`."""
    files = {top + path: data for path, data in OURS.items()}
    files[f"{top}solutions/{FIRST}.py"] = b"# %% [markdown]"
    files[f"{top}solutions/answers/{FIRST}/shard_batch.py"] = b"# %% wrong"
    files[f"{top}README.md"] = b"# Distributed JAX"
    files[f"{top}.git/objects/ab/cdef.ipynb"] = b"x"
    files[f"{top}.git/HEAD"] = b"ref: refs/heads/main"
    return files | {f"{top}lessons/{FIRST}.ipynb": mine}


def in_order(contents, order):
    names = {"as is": sorted(contents), "reversed": sorted(contents)[::-1]}
    names["solutions last"] = sorted(contents, key=lambda name: "solutions/" in name)
    return {name: contents[name] for name in names[order]}


@pytest.mark.parametrize("order", ["as is", "reversed", "solutions last"])
@pytest.mark.parametrize("top", ["", "lesson-main/", "my work/course/"])
def test_of_a_repository_in_a_zip_the_worked_on_lesson_counts(
    tmp_path, course, order, top
):
    contents = {
        f"{who}_{number}_assignsubmission_file_/work.zip": zipped(
            in_order(repository(data, top), order)
        )
        for who, number, data in (("Ada", 12, ADA), ("Bob", 13, BOB))
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"12/{FIRST}": ADA, f"13/{FIRST}": BOB}
    assert found.problems == []
    ours = len(fates(found)[Fate.OURS])
    assert ours == 2 * (len(OURS) - 1)


@pytest.mark.parametrize("newest", ["lessons", "lessons/ko", "solutions"])
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_after_a_git_pull_the_worked_on_lesson_counts(tmp_path, course, kind, newest):
    contents = {f"ada/{name}": data for name, data in repository().items()}
    contents |= {f"bob/{name}": data for name, data in repository(BOB).items()}
    contents = {
        name: (data, FRIDAY if f"/{newest}/{FIRST}" in name else MONDAY)
        for name, data in contents.items()
    }
    if kind == "folder":
        given = put(tmp_path / "given", {n: d for n, (d, _) in contents.items()})
        for name, (_, when) in contents.items():
            seconds = time.mktime((*when, 0, 0, -1))
            os.utime(given / name, (seconds, seconds))
    else:
        given = given_as("zip", tmp_path, contents)
    found = collect([given], course, LESSONS)
    assert placed(course) == TWO
    assert found.problems == []


def test_a_lesson_in_korean_counts_where_the_english_one_is_untouched(tmp_path, course):
    mine = work("ada", folder="lessons/ko")
    contents = repository(STUB, "ada/") | {f"ada/lessons/ko/{FIRST}.ipynb": mine}
    contents[f"bob/{FIRST}.ipynb"] = BOB
    collect([given_as("folder", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": mine, f"bob/{FIRST}": BOB}


def test_of_two_languages_that_were_worked_on_the_lesson_in_lessons_counts(
    tmp_path, course
):
    korean = work("korean", folder="lessons/ko")
    contents = repository(ADA) | {f"lessons/ko/{FIRST}.ipynb": korean}
    given = {"Ada_12_assignsubmission_file_/a.zip": zipped(contents)}
    found = collect([given_as("zip", tmp_path, given)], course, LESSONS)
    assert placed(course) == {f"12/{FIRST}": ADA}
    [line] = found.problems
    assert f'/lessons/{FIRST}.ipynb" counts' in line and f"/ko/{FIRST}" in line


@pytest.mark.parametrize("solutions", [True, False])
@pytest.mark.parametrize("kind", ["folder of clones", "clones", "zips"])
def test_a_repository_is_one_learner(tmp_path, course, kind, solutions):
    given = [tmp_path / "lesson-ada", tmp_path / "lesson-bob"]
    for path, data in zip(given, (ADA, BOB), strict=True):
        if kind == "zips":
            files = repository(data, f"{path.name}-main/")
        else:
            files = repository(data)
        files = {n: d for n, d in files.items() if solutions or "solutions" not in n}
        if kind == "zips":
            path.with_suffix(".zip").write_bytes(zipped(files))
        else:
            folder = tmp_path / "clones" if kind == "folder of clones" else tmp_path
            put(folder / path.name, files)
    if kind == "folder of clones":
        given = [tmp_path / "clones"]
    elif kind == "zips":
        given = [path.with_suffix(".zip") for path in given]
    found = collect(given, course, LESSONS)
    assert placed(course) == {f"lesson-ada/{FIRST}": ADA, f"lesson-bob/{FIRST}": BOB}
    assert found.problems == []
    assert not any(".git" in path for path, _ in found.account)


@pytest.mark.parametrize("solutions", [True, False])
def test_a_repository_has_lessons_that_a_class_does_not_have(
    tmp_path, course, solutions
):
    files = repository(ADA)
    files |= {
        f"lessons/{name}.ipynb": (ROOT / "lessons" / f"{name}.ipynb").read_bytes()
        for name in ("03_pmap_training", "04_sharding_api", "05_full_pipeline")
    }
    files = {n: d for n, d in files.items() if solutions or "solutions" not in n}
    given = put(tmp_path / "lesson-ada", files)
    found = collect([given], course, LESSONS)
    assert placed(course) == {f"lesson-ada/{FIRST}": ADA}
    assert found.problems == []


def test_work_on_a_lesson_that_the_class_does_not_have_is_named(tmp_path, course):
    third = json.loads((ROOT / "lessons" / "03_pmap_training.ipynb").read_bytes())
    cell = next(c for c in third["cells"] if nbgrader_metadata(c).get("solution"))
    cell["source"] = [f"# exercise: {cell['id']}\n", f"def {cell['id']}(): 'ada'"]
    files = {f"lessons/{FIRST}.ipynb": ADA, "solutions/x.py": b""}
    files["lessons/03_pmap_training.ipynb"] = json.dumps(third).encode()
    found = collect([put(tmp_path / "lesson-ada", files)], course, LESSONS)
    assert placed(course) == {f"lesson-ada/{FIRST}": ADA}
    [line] = found.problems
    assert "is of lesson 03_pmap_training, which is not in this class's" in line


def test_a_repository_in_which_nothing_was_done_is_no_submission(tmp_path, course):
    given = put(tmp_path / "lesson-ada", repository(STUB))
    found = collect([given], course, LESSONS)
    assert placed(course) == {}
    assert found.problems == [
        "lesson-ada changed none of the course's notebooks in their repository."
    ]


@pytest.mark.parametrize("data", [STUB, SOLVED], ids=["stub", "solved"])
def test_a_lone_notebook_counts_even_if_it_equals_ours(tmp_path, course, data):
    contents = {f"ada_{FIRST}.ipynb": data, f"bob_{FIRST}.ipynb": BOB}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": data, f"bob/{FIRST}": BOB}
    assert found.problems == []


@pytest.mark.parametrize("ours", ["lessons", "lessons/ko", "solutions"])
def test_a_newer_notebook_that_equals_ours_does_not_count(tmp_path, course, ours):
    untouched = OURS[f"{ours}/{FIRST}.ipynb"]
    contents = {
        "ada/Untitled.ipynb": (ADA, MONDAY),
        f"ada/{FIRST}.ipynb": (untouched, FRIDAY),
        f"bob/{FIRST}.ipynb": (BOB, MONDAY),
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    assert fates(found)[Fate.OURS] == [f"ada/{FIRST}.ipynb"]
    later = tmp_path / f"ada_{FIRST}.ipynb"
    later.write_bytes(untouched)
    found = collect([later], course, LESSONS)
    assert placed(course) == TWO
    [line] = found.problems
    assert line.endswith(f'"{later.name}" is as the course released or solved it.')


LOOSE_NUMBERS = {
    "2nd try.ipynb": FIRST,
    "3. final.ipynb": FIRST,
    "Lesson 2 (final).ipynb": FIRST,
    "1. collectives homework.ipynb": SECOND,
    "Untitled.ipynb": SECOND,
    "01_pmap_spmd.ipynb": SECOND,
}


@pytest.mark.parametrize("name, lesson", LOOSE_NUMBERS.items(), ids=LOOSE_NUMBERS)
@pytest.mark.parametrize("place", ["ada/", "Ada_ada_assignsubmission_file_/", "zip"])
def test_cells_say_which_lesson_it_is_and_not_a_number_in_a_name(
    tmp_path, course, name, lesson, place
):
    earlier = put(tmp_path, {f"ada_{FIRST}.ipynb": BOB}) / f"ada_{FIRST}.ipynb"
    os.utime(earlier, (10**9, 10**9))
    collect([earlier], course, LESSONS)
    data = work("ada", lesson)
    contents = (
        {"ada.zip": zipped({name: data})}
        if place == "zip"
        else {f"{place.replace('Ada_ada_', 'Ada_')}{name}": data}
    )
    student = "Ada" if place.startswith("Ada") else "ada"
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    others = {f"ada/{FIRST}": BOB}
    assert placed(course) == others | {f"{student}/{lesson}": data}


def test_a_title_says_which_lesson_it_is_where_no_cell_does(tmp_path, course):
    notebook = json.loads(OURS[f"lessons/ko/{SECOND}.ipynb"])
    notebook["cells"] = [notebook["cells"][0]]
    data = json.dumps(notebook).encode()
    contents = {"ada/1. final.ipynb": data, "bob/1. final.ipynb": BOB}
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{SECOND}": data, f"bob/{FIRST}": BOB}


def test_a_newer_file_without_the_lessons_cells_does_not_count(tmp_path, course):
    notes = json.dumps({"cells": [{"cell_type": "markdown", "source": "Notes"}]})
    contents = {
        f"ada/{FIRST}.ipynb": (ADA, MONDAY),
        "ada/lesson 1 notes.ipynb": (notes.encode(), FRIDAY),
        "ada/lesson 1 again.ipynb": (b"damaged", FRIDAY),
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": ADA}
    [line] = found.problems
    assert 'notes.ipynb"' in line and "has no exercise of the lesson" in line


@pytest.mark.parametrize("other", ["Untitled", "group-12"])
def test_two_files_of_the_same_time_are_left_for_a_person(tmp_path, course, other):
    contents = {
        f"ada/{other}.ipynb": ADA,
        f"ada/{FIRST}.ipynb": BOB,
        f"bob/{FIRST}.ipynb": BOB,
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"bob/{FIRST}": BOB}
    [line] = found.problems
    for name in (other, FIRST):
        assert f'"submissions.zip/ada/{name}.ipynb"' in line
    assert "equally new" in line
    assert found.summary == "3 files: 1 counts, 2 are left for a person."


def test_in_a_learners_archive_the_newest_counts(tmp_path, course):
    inside = {"2nd try.ipynb": (BOB, MONDAY), "3. final.ipynb": (ADA, FRIDAY)}
    contents = {"ada.zip": zipped(inside), f"bob_{FIRST}.ipynb": BOB}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    assert "final.ipynb" in found.problems[0] and "newer" in found.problems[0]


def legacy_zip(contents, encoding) -> bytes:
    """Makes an archive whose names are encoded so, without a word about it."""

    class Info(zipfile.ZipInfo):
        def _encodeFilenameFlags(self):
            return self.filename.encode(encoding), self.flag_bits & ~0x800

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in contents.items():
            archive.writestr(Info(name), data)
    return buffer.getvalue()


KOREAN = {"김철수": ADA, "이영희": BOB}


@pytest.mark.parametrize("encoding", ["cp949", "utf-8", "utf-8 with its flag"])
@pytest.mark.parametrize("form", ["{}/{}.ipynb", "{}_{}.ipynb", "과제/{}_{}.ipynb"])
def test_korean_names_in_a_zip(tmp_path, course, encoding, form):
    names = {form.format(name, FIRST): data for name, data in KOREAN.items()}
    given = tmp_path / "submissions.zip"
    given.write_bytes(zipped(names))
    if "flag" not in encoding:
        given.write_bytes(legacy_zip(names, encoding))
    found = collect([given], course, LESSONS)
    assert sorted(found.names.values()) == sorted(KOREAN)
    assert sorted(placed(course).values()) == sorted(KOREAN.values())


def test_a_family_and_a_given_name_may_both_be_words_of_work(tmp_path, course):
    names = {"강_수정": ADA, "조_수정": BOB}  # "lecture", "group" and "revision"
    contents = {f"1강 과제/{name}/{FIRST}.ipynb": data for name, data in names.items()}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert sorted(found.names.values()) == sorted(names)
    assert sorted(placed(course).values()) == sorted(names.values())


@pytest.mark.parametrize(
    "names",
    [("ps1.ipynb", "ps1 final.ipynb"), ("pmap ada.ipynb", "Ada Lovelace.ipynb")],
)
def test_a_learner_may_name_files_in_their_folder_as_they_like(tmp_path, course, names):
    contents = {
        f"ada/{names[0]}": (BOB, MONDAY),
        f"ada/{names[1]}": (ADA, FRIDAY),
        f"bob/{FIRST}.ipynb": BOB,
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    assert "is newer than" in found.problems[0] and len(found.problems) == 1


@pytest.mark.parametrize(
    "inside", ["my stuff/", "cleo's things/", "bob/", f"bob/{FIRST}/"]
)
def test_a_zip_with_one_folder_is_of_the_learner_whom_the_zip_names(
    tmp_path, course, inside
):
    for name, data in (("ada", ADA), ("bob", BOB)):
        contents = {f"{inside if name == 'ada' else ''}{FIRST}.ipynb": data}
        (tmp_path / f"{name}.zip").write_bytes(zipped(contents, when=FRIDAY))
    collect([tmp_path / "bob.zip", tmp_path / "ada.zip"], course, LESSONS)
    assert placed(course) == TWO


def test_long_lines_and_many_blank_cells_are_read(tmp_path, course):
    notebook = json.loads(ADA)
    blank = {"cell_type": "code", "source": ""}
    long = [word * 9000 for word in ("shard_batch ", "shard_batch:", "# exercise: ")]
    notebook["cells"] += [{"cell_type": "code", "source": line} for line in long]
    notebook["cells"] += [blank] * 1900
    data = json.dumps(notebook).encode()
    contents = {"ada/Untitled.ipynb": data, f"bob/{FIRST}.ipynb": BOB}
    collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": data, f"bob/{FIRST}": BOB}


ODD_LMS = {
    "two names in Blackboard's": [
        BLACKBOARD.format("x_smith", 29, f"_{FIRST}.ipynb"),
        BLACKBOARD.format("y_smith", 29, f"_{FIRST}.ipynb"),
    ],
    "Canvas's among others": [
        f"lovelaceada_12_4567_{FIRST}.ipynb",
        f"byronbob_13_4568_{FIRST}.ipynb",
    ],
    "Moodle's among others": [
        f"Ada_12_assignsubmission_file_/{FIRST}.ipynb",
        f"Bob_13_assignsubmission_file_{FIRST}.ipynb",
    ],
}


@pytest.mark.parametrize("odd", ODD_LMS.values(), ids=ODD_LMS)
def test_what_only_seems_to_be_an_lmss_is_left_alone_loudly(tmp_path, course, odd):
    others = [f"cyd_{FIRST}.ipynb", f"dan/{FIRST}.ipynb", f"eva_{FIRST}.ipynb"]
    if "Lesson1" in odd[0]:
        others = [BLACKBOARD.format("cyd", 29, f"_{FIRST}.ipynb")]
    contents = dict.fromkeys(odd, ADA) | dict.fromkeys(others, CYD)
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert set(placed(course).values()) == {CYD}
    assert len(placed(course)) == len(others)
    assert sorted(fates(found)[Fate.FOR_A_PERSON]) == sorted(odd)


CORRECTED = {
    "a word": "{1}_corrected",
    "a word that nobody expects": "{1}_v1x",
    "a date": "20260328_{1}",
    "a date with hyphens": "2026-03-28_{1}",
    "a time stamp of ILIAS": "20260328{2}0000_{1}",
    "a time stamp of nbgitpuller": "{1}__20261104{2}4101",
    "a copy of Windows": "{1} - Copy",
    "a copy of Windows in Korean": "{1} - 복사본",
    "a copy of Drive in Korean": "{1}.ipynb의 사본",
    "a copy of Drive in Japanese": "{1} のコピー",
    "a copy of Drive in Spanish": "Copia de {1}",
}


@pytest.mark.parametrize("folder", ["", "Lesson 1/Abgaben/", "lesson-main/"])
@pytest.mark.parametrize("name", CORRECTED.values(), ids=CORRECTED)
def test_a_folder_names_its_learner_whatever_the_files_in_it_are_called(
    tmp_path, course, folder, name
):
    contents = {
        f"{folder}{learner}/{name.format(learner, FIRST, hour)}.ipynb": data
        for learner, data, hour in (("ada", ADA, 9), ("bob", BOB, 10), ("cyd", CYD, 11))
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == THREE
    assert found.problems == []


@pytest.mark.parametrize(
    "name", ["{}_corrected", "{}__20261104104101", "20260328090000_{}", "{}-Copy1"]
)
def test_of_two_files_in_a_folder_the_newer_counts_whatever_it_is_called(
    tmp_path, course, name
):
    contents = {
        f"ada/{FIRST}.ipynb": (BOB, MONDAY),
        f"ada/{name.format(FIRST)}.ipynb": (ADA, FRIDAY),
        f"bob/{FIRST}.ipynb": (BOB, MONDAY),
    }
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    [line] = found.problems
    assert "is newer than" in line


# In a flat download each name beside the lesson stands where most of them do.
NOBODYS = {
    "a time stamp": f"{FIRST}__20261104104101.ipynb",
    "a time stamp first": f"20260328090000_{FIRST}.ipynb",
    "a date": f"20260328_{FIRST}.ipynb",
    "a date with hyphens": f"{FIRST}_2026-03-28.ipynb",
    "a word": f"{FIRST}_corrected.ipynb",
    "a word that nobody expects": f"{FIRST}_v1x.ipynb",
    "a copy in Korean": f"{FIRST}.ipynb의 사본",
    "a copy in German, without an ending": f"Kopie von {FIRST}.ipynb (1)",
    "a copy of Drive": f"Copy of {FIRST}.ipynb (1)",
}


@pytest.mark.parametrize("folder", ["", "Lesson 1/"])
@pytest.mark.parametrize("stray", NOBODYS.values(), ids=NOBODYS)
def test_in_a_flat_download_a_word_or_a_date_is_no_learner(
    tmp_path, course, folder, stray
):
    contents = one(folder, NAMED | {stray: work("nobody")})
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == THREE
    assert fates(found)[Fate.FOR_A_PERSON] == [folder + stray]
    [line] = found.problems
    assert "does not say whose it is" in line


@pytest.mark.parametrize(
    "form",
    [
        "{} - Copy of {}.ipynb",
        "20260328_{1}_{0}.ipynb",
        "{1}_{0}_2026-03-28.ipynb",
        "{}_{}.ipynb의 사본",
        "{}_{}.ipynb (1)",
        "{}_{}.ipynb.txt",
    ],
)
def test_a_copys_mark_or_a_date_is_no_part_of_a_learners_name(tmp_path, course, form):
    contents = {form.format(n, FIRST): d for n, d in (("ada", ADA), ("bob", BOB))}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == TWO
    assert found.problems == []


@pytest.mark.parametrize(
    "name", ["cs336", "phys101-2026", "Fortgeschrittene Kurse", "week3"]
)
@pytest.mark.parametrize(
    "others",
    [
        {"bob/answer.py": b"x", "cyd/answer.pdf": b"%PDF"},
        {"bob/work.7z": b"7z", "cyd/lesson.tar.gz": b"\x1f\x8b"},
        {"bob/damaged.zip": b"PK\x03\x04 cut", "cyd/link.txt": b"https://drive"},
    ],
    ids=["programs", "other archives", "damaged ones"],
)
def test_a_zip_with_folders_of_several_learners_is_nobodys(
    tmp_path, course, name, others
):
    given = tmp_path / f"{name}.zip"
    given.write_bytes(zipped({f"ada/{FIRST}.ipynb": ADA} | others))
    found = collect([given], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": ADA}
    files = sorted(path.rpartition("/")[2] for path in others)
    assert (
        sorted(found.problems)
        == [
            f'{learner} submitted no notebook, only "{file}".'
            for learner, file in zip(("bob", "cyd"), files, strict=False)
        ]
        or len(found.problems) == 2
    )
    assert [line.partition(" ")[0] for line in sorted(found.problems)] == ["bob", "cyd"]


def test_a_learners_zip_may_hold_folders_of_other_files(tmp_path, course):
    inside = {
        f"notebooks/{FIRST}.ipynb": ADA,
        "data/x.csv": b"1",
        "figures/a.png": b"x",
    }
    (tmp_path / "ada.zip").write_bytes(zipped(inside))
    collect([tmp_path / "ada.zip"], course, LESSONS)
    assert placed(course) == {f"ada/{FIRST}": ADA}


@pytest.mark.parametrize("name", ["bob", "Bob"])
def test_a_file_named_after_another_learner_is_left_for_a_person(
    tmp_path, course, name
):
    contents = {f"ada/{name}_{FIRST}.ipynb": ADA, f"bob/{FIRST}.ipynb": BOB}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"bob/{FIRST}": BOB}
    [line] = found.problems
    assert "is in ada's folder, but named after bob" in line


@pytest.mark.parametrize(
    "names",
    [
        [f"kim_101_2026000{n}_{FIRST}.ipynb" for n in (1, 2, 3)],
        [f"kim_101_2026000{n}_{FIRST}.ipynb" for n in (1, 2)]
        + [f"lee_102_20260003_{FIRST}.ipynb"],
        [f"kim_101_2026000{n}_{FIRST} (1).ipynb" for n in (1, 2, 3)],
    ],
)
def test_learners_of_one_surname_and_course_are_not_one_of_canvas(
    tmp_path, course, names
):
    contents = {name: work(name) for name in names}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert len(placed(course)) == 3
    assert found.problems == []


# What systems and browsers make of "01_pmap_spmd.ipynb".
ENDINGS = {
    "text": f"{FIRST}.ipynb.txt",
    "JSON": f"{FIRST}.ipynb.json",
    "untitled, text": "Untitled.ipynb.txt",
    "another name, text": "notebook.txt",
    "another name, JSON": "answers.json",
    "another name, none": "my work",
    "none": FIRST,
    "a copy": f"{FIRST}.ipynb의 사본",
    "a second download": "Untitled.ipynb (1)",
}


@pytest.mark.parametrize("place", ["Ada_12_assignsubmission_file_/{}", "ada/{}"])
@pytest.mark.parametrize("name", ENDINGS.values(), ids=ENDINGS)
def test_a_notebook_with_another_ending_counts(tmp_path, course, place, name):
    bob = place.replace("ada", "bob").replace("12", "13").format(f"{FIRST}.ipynb")
    contents = {place.format(name): ADA, bob: BOB}
    contents[place.format("notes.txt")] = b'{"cells": "none"}'
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    ids = ("12", "13") if "assign" in place else ("ada", "bob")
    assert placed(course) == {f"{ids[0]}/{FIRST}": ADA, f"{ids[1]}/{FIRST}": BOB}
    assert found.problems == []


@pytest.mark.parametrize("twice", ["김철수", "Zoë Ångström", "*"])
def test_a_folder_named_like_the_id_made_for_another_learner_is_left(
    tmp_path, course, twice
):
    made_up = safe_id(twice)
    contents = {f"{twice}/{FIRST}.ipynb": ADA, f"{made_up}/{FIRST}.ipynb": BOB}
    found = collect([given_as("zip", tmp_path, contents)], course, LESSONS)
    assert placed(course) == {f"{made_up}/{FIRST}": ADA}
    assert fates(found)[Fate.FOR_A_PERSON] == [f"{made_up}/{FIRST}.ipynb"]
    assert any("the id that was made for" in line for line in found.problems)
