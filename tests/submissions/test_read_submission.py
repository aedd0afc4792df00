"""Which file counts, and what of it is kept; any bytes do, without an error."""

import os
import random
from pathlib import Path

import nbformat
import pytest
from submitted import ANSWERS, cell, data_of, zipped

from grader.submissions import archives
from grader.submissions import read_submission as reading
from grader.submissions.answers import extract_answers
from grader.submissions.read_submission import (
    SubmittedFile,
    parse_submission,
    read_submission,
)

NAME = "01_tiny"


def parsed(data) -> SubmittedFile:
    found = parse_submission(data)
    assert found.data == data
    if found.notebook is None:
        assert found.reasons and all(r.endswith(".") for r in found.reasons)
    else:
        assert not found.reasons
        nbformat.validate(found.notebook)
    return found


@pytest.mark.parametrize("num_cells", [2001, 70_000])
def test_cells_of_format_3_are_counted_before_they_are_converted(
    monkeypatch, num_cells
):
    def convert(*_, **__):
        raise AssertionError("converting many cells takes minutes")

    monkeypatch.setattr(nbformat, "reads", convert)
    cells = [{"cell_type": "code", "input": "x", "outputs": [{}] * 10}] * num_cells
    facts = {"nbformat": 3, "metadata": {}, "worksheets": [{"cells": cells}]}
    [reason] = parsed(data_of(facts)).reasons
    assert f"has {num_cells:,} cells; the limit is 2,000" in reason


@pytest.mark.parametrize("bad", ["\0", "\ud800", "\udfff\0"], ids=ascii)
def test_characters_that_no_program_can_hold_are_removed(facts, bad):
    cell(facts, "double")["source"] = f"{ANSWERS['double']}  # a{bad}"
    text = nbformat.writes(parsed(data_of(facts)).notebook).encode()
    assert b"\\u0000" not in text and b"x + x" in text


def test_only_what_grading_needs_survives(facts):
    facts["metadata"] = {"colab": {"name": "Ada Lovelace", "provenance": []}}
    for one in facts["cells"]:
        photo = {"user": {"displayName": "Ada", "photoUrl": "https://example.org/a"}}
        one["metadata"] |= {"executionInfo": photo, "tags": ["skip-execution"]}
        one["metadata"].setdefault("nbgrader", {})["more"] = {"deep": [1]}
        one["outputs"] = [{"data": {"text/html": "<script>alert(1)</script>"}}]
    notebook = parsed(data_of(facts)).notebook
    assert notebook.metadata == {}
    for one in notebook.cells:
        keys = {"cell_type", "id", "metadata", "source"}
        code = {"outputs", "execution_count"} if one.cell_type == "code" else set()
        assert set(one) == keys | code
        assert set(one.metadata) <= {"nbgrader"}
        assert set(one.metadata.get("nbgrader", {})) <= {"grade_id", "checksum"}
    text = nbformat.writes(notebook)
    for gone in ("Ada", "photo", "<script>", "provenance", "skip-execution", "deep"):
        assert gone not in text


def test_random_damage_never_raises(answered, lesson):
    chance = random.Random(0)
    alphabet = b'{}[]",:\\\0\xff\xd8eE-9ntf '
    for _ in range(400):
        data = bytearray(answered.encode())
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(data))
            size = chance.choice([0, 1, 1, 50])
            data[place : place + size] = [chance.choice(alphabet)]
        found = parsed(bytes(data))
        if found.notebook is not None:
            extract_answers(found.notebook, lesson)


def test_any_other_error_becomes_a_reason(monkeypatch, answered):
    def fail(*arguments):
        raise SystemError("something new")

    monkeypatch.setattr(reading, "clean_notebook", fail)
    assert "(SystemError)" in parsed(answered.encode()).reasons[0]


def read(folder, contents) -> SubmittedFile:
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return read_submission(folder, NAME)


def with_mark(facts, mark):
    """Adds a last cell with the text `mark`."""
    marked = {"cell_type": "code", "source": mark, "id": "mark", "metadata": {}}
    return data_of(facts | {"cells": [*facts["cells"], marked]})


def last_cell(found) -> str:
    assert found.notebook is not None, found.reasons
    return found.notebook.cells[-1].source


def test_file_of_the_lessons_name_counts_and_the_others_do_not(tmp_path, facts):
    names = [f"{NAME}.ipynb", f"{NAME}-Copy1.ipynb", "other.ipynb", "a.pdf", "b.zip"]
    found = read(tmp_path, {name: with_mark(facts, name) for name in names})
    assert last_cell(found) == names[0]
    assert found.data == with_mark(facts, names[0])
    assert found.notes == ()


def test_name_that_fits_best_counts_then_the_newest(tmp_path, facts):
    names = ["02_more.ipynb", "01 (1).ipynb", "old 01_tiny.ipynb", "new 01_tiny.ipynb"]
    for age, name in enumerate(names):
        (tmp_path / name).write_bytes(with_mark(facts, name))
        os.utime(tmp_path / name, (10**9 - age, 10**9 - age))
    os.utime(tmp_path / names[3], (2 * 10**9, 2 * 10**9))
    found = read_submission(tmp_path, NAME)
    assert last_cell(found) == "new 01_tiny.ipynb"
    assert "Left out: " in found.notes[0] and '"02_more.ipynb"' in found.notes[0]


def test_a_path_may_be_that_of_the_file(tmp_path, answered):
    path = tmp_path / f"{NAME}.ipynb"
    path.write_text(answered)
    assert read_submission(path, NAME) == parse_submission(answered.encode())


def test_file_over_the_limit_is_not_read(tmp_path):
    with open(tmp_path / f"{NAME}.ipynb", "wb") as file:
        file.truncate(200 << 20)
    found = read_submission(tmp_path, NAME)
    assert found.reasons[0].startswith(
        f'"{NAME}.ipynb" has 200 MB; the limit is 64 MB. Clear its outputs '
        "(Kernel > Restart Kernel and Clear Outputs), save and submit again."
    )
    assert found.data == b""


def test_what_the_machine_cannot_read_is_not_the_learners_fault(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.ipynb").write_bytes(b"{}")

    def fail(*arguments):
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(PermissionError):
        read_submission(tmp_path, NAME)


def test_archive_with_too_many_files_gets_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 10)
    data = zipped({f"{number}.ipynb": b"" for number in range(11)})
    assert "holds 11 files" in read(tmp_path, {"a.zip": data}).reasons[0]


def test_digest_depends_on_the_bytes_and_on_what_is_said(tmp_path, answered):
    found = read(tmp_path, {f"{NAME}.ipynb": answered.encode()})
    assert found.digest == parse_submission(answered.encode()).digest
    (tmp_path / f"{NAME}.ipynb").rename(tmp_path / "01.ipynb")
    renamed = read_submission(tmp_path, NAME)
    none, link = (SubmittedFile(None, reasons=(why,)) for why in ("none.", "link."))
    digests = [found.digest, renamed.digest, none.digest, link.digest]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_in_the_archive_of_a_repository_the_lesson_in_lessons_counts(
    tmp_path, facts, order
):
    names = [f"{folder}/{NAME}.ipynb" for folder in ("lessons", "lessons/ko")]
    names += [f"work/solutions/{NAME}.ipynb"]
    contents = {name: with_mark(facts, name) for name in names[::order]}
    found = read(tmp_path, {"homework.zip": zipped(contents)})
    assert last_cell(found) == names[0]
