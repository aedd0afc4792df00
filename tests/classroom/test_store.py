"""Finished results stay, whatever happens; changed ones are never taken for them."""

import dataclasses
import json

import pytest
import tiny

from grader import CourseError
from grader.classroom.store import Store
from grader.containment.limits import Limits
from grader.kernel.compile_cache import find
from grader.results import ExerciseResult, Outcome, Record, Result, Status
from grader.workers import cache_key
from grader.workers.cache_key import key_of, lesson_hashes, sha256

RESULT = Result(
    "01_tiny",
    (ExerciseResult("double", Outcome.PASSED, 1, 1, details=(("seen", "6"),)),),
    Status.GRADED_WITH_NOTE,
    notes=("A note.",),
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "grading")


def record(**hashes):
    hashes = {"submission": sha256(b"x"), **hashes}
    return Record(key_of(hashes), hashes, RESULT, 1.5)


def test_result_comes_back_as_it_was(store):
    store.put(record())
    assert store.get(record().key) == record()
    assert store.get(key_of({"submission": "other"})) is None


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"key": 1}', None],
    ids=["empty", "cut off", "list", "other", "another key"],
)
def test_damaged_result_counts_as_none(store, damage):
    store.put(record())
    path = store.path(record().key)
    text = path.read_text().replace('"lesson": "01_tiny"', '"lesson": 3')
    facts = json.loads(text) | {"hashes": {"submission": "forged"}}
    path.write_bytes(json.dumps(facts).encode() if damage is None else damage)
    assert store.get(record().key) is None


def test_full_disk_leaves_nothing_half_written(store, monkeypatch):
    def no_space(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        store.put(record())
    assert [path for path in store.folder.rglob("*") if path.is_file()] == []


def test_log_only_grows_and_survives_a_line_cut_short(store):
    store.add_to_log("graded", student="ada", lesson="01_tiny", key="k1")
    before = store.log.read_bytes()
    with open(store.log, "ab") as file:
        file.write(b'{"at": "2026-01-02", "event": "gra')  # a crash, here
    store.add_to_log("graded", student="bob", lesson="01_tiny", key="k2")
    assert store.log.read_bytes().startswith(before)
    assert [entry["student"] for entry in store.log_entries()] == ["ada", "bob"]
    assert [
        entry["key"] for entry in store.log_entries(student="bob", lesson="01_tiny")
    ] == ["k2"]
    assert list(store.log_entries(student="bob", lesson="02_else")) == []


def test_there_is_one_writer(store):
    with store.writing(), pytest.raises(CourseError, match=r"in use .*process \d+"):
        with Store(store.folder).writing():
            pass
    with store.writing():
        pass  # free again


@pytest.fixture
def hashes(tmp_path):
    root = tmp_path / "course"
    lesson = tiny.lesson(root)

    def of(lesson=lesson, limits=None, data=b"x"):
        hashes = lesson_hashes(lesson, limits or Limits(), root)
        return key_of({**hashes, "submission": sha256(data)})

    return root, lesson, of


def test_same_things_have_the_same_key(hashes):
    _, _, key = hashes
    assert key() == key()


@pytest.mark.parametrize(
    "what", ["submission", "lesson", "seed", "module", "limits", "grader", "packages"]
)
def test_whatever_changes_makes_another_key(hashes, what, monkeypatch):
    root, lesson, key = hashes
    before, changes = key(), {}
    if what == "submission":
        changes["data"] = b"y"
    elif what == "lesson":
        lesson.cells[-1].source += "\n# changed"
    elif what == "seed":
        lesson.metadata["seed"] = 7
    elif what == "module":
        path = root / "lessons" / "coursekit" / "expect.py"
        path.write_text(path.read_text() + "\n")
    elif what == "limits":
        changes["limits"] = dataclasses.replace(Limits(), wall_s=61)
    elif what == "grader":
        monkeypatch.setattr(cache_key, "deciding_source", lambda: b"changed")
    else:
        monkeypatch.setattr(cache_key, "installed_packages", lambda: b"jax==99")
    assert key(**changes) != before


def test_classes_with_their_own_seeds_share_what_our_solutions_compile(hashes):
    _, lesson, _ = hashes
    mine = lesson_hashes(lesson, Limits())
    lesson.metadata["seed"] = 7
    other = lesson_hashes(lesson, Limits())
    assert lesson.metadata["seed"] == 7
    assert find(mine) == find(other) and mine["seed"] != other["seed"]
