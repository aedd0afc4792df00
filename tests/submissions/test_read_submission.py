"""Any bytes become a clean notebook or a reason in plain words, and never an error."""

import copy
import io
import json
import os
import pickle
import random
import zipfile

import nbformat
import pytest
import tiny

from grader.authoring.release import exercises, release
from grader.submissions import read_submission as reading
from grader.submissions import safe_reading
from grader.submissions.answers import Answers, extract_answers
from grader.submissions.read_submission import (
    SubmittedFile,
    parse_submission,
    read_submission,
    why_other_lesson,
)

NAME = "01_tiny"
ANSWERS = {
    "double": "# exercise: double\ndef double(x):\n    return x + x",
    "negate": "# exercise: negate\ndef negate(x):\n    return 0 - x",
}
EDIT = "# exercise: double\ndef double(x):\n"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture
def submitted(lesson):
    """The released lesson as plain JSON, both exercises answered."""
    notebook = release(lesson)
    for name, source in ANSWERS.items():
        exercises(notebook)[name].source = source
    return json.loads(nbformat.writes(notebook))


def raw(facts, **options):
    return json.dumps(facts, **options).encode()


def parsed(data) -> SubmittedFile:
    found = parse_submission(data)
    assert found.data == data
    if found.notebook is None:
        assert found.reasons and all(r.endswith(".") for r in found.reasons)
    else:
        assert not found.reasons
        nbformat.validate(found.notebook)
    return found


def notes_on(data, lesson):
    """Parses a submission whose answers must be found; returns the intake's notes."""
    found = parsed(data)
    assert found.notebook is not None, found.reasons
    assert extract_answers(found.notebook, lesson) == Answers(ANSWERS)
    return found.notes


def code_cells(facts):
    return [cell for cell in facts["cells"] if cell["cell_type"] == "code"]


def drop(*keys):
    def change(facts):
        for cell in facts["cells"]:
            for key in keys:
                cell.pop(key, None)

    return change


def lower_format(facts):
    facts["nbformat_minor"] = 2
    drop("id")(facts)


def to_format_3(facts):
    lower_format(facts)
    for cell in facts["cells"]:
        cell["source"] = "".join(cell["source"])
    old = nbformat.v4.downgrade(nbformat.from_dict(copy.deepcopy(facts)))
    facts.clear()
    facts.update(json.loads(json.dumps(old)))


def save_in_colab(facts):
    lower_format(facts)
    user = {"displayName": "Ada Lovelace", "photoUrl": "https://example.org/ada.jpg"}
    facts["metadata"] = {"colab": {"provenance": [], "name": "Ada Lovelace"}}
    for number, cell in enumerate(facts["cells"]):
        cell["metadata"] |= {"id": f"x{number}", "executionInfo": {"user": user}}


def run_it(facts):
    for number, cell in enumerate(code_cells(facts)):
        image = {"image/png": "A" * 10**6, "text/html": "<script>alert(1)</script>"}
        output = {"output_type": "display_data", "data": image, "metadata": {}}
        cell.update(execution_count=number, outputs=[output, "junk", {"x": 1}])


def each_cell(**changes):
    return lambda facts: [cell.update(changes) for cell in facts["cells"]] and None


def reorder(facts):
    for cell in facts["cells"]:
        cell["metadata"] = dict(reversed(cell["metadata"].items()))
        items = list(cell.items())
        cell.clear()
        cell.update(reversed(items))


HARMLESS = {
    "untouched": lambda facts: None,
    "format 4.2": lower_format,
    "Colab": save_in_colab,
    "stale and huge outputs": run_it,
    "unknown kernel": lambda facts: facts["metadata"].update(kernelspec={"name": 7}),
    "no notebook metadata": lambda facts: facts.pop("metadata"),
    "metadata is text": lambda facts: facts.update(metadata="x"),
    "junk keys": lambda facts: facts.update(authors=["ada"], version={"a": [1]}),
    "attachments and tags": each_cell(attachments={"a.png": {"x": 1}}),
    "reordered": reorder,
    "source as text": lambda facts: [
        cell.update(source="".join(cell["source"])) for cell in facts["cells"]
    ],
}
REPAIRED = {
    "format 3": (to_format_3, "old format 3.0"),
    "format 4.99": (lambda facts: facts.update(nbformat_minor=99), "is 4.99"),
    "format 5": (lambda facts: facts.update(nbformat=5), "format is 5.5"),
    "format missing": (lambda facts: facts.pop("nbformat"), "4.5 was assumed"),
    "format is text": (lambda facts: facts.update(nbformat="4"), "4.5 was assumed"),
    "no ids": (drop("id"), "lacked a part"),
    "no outputs": (drop("outputs", "execution_count"), "lacked a part"),
    "one id for all": (each_cell(id="x"), "id of another one: 13."),
    "unknown types": (
        lambda facts: [cell.update(cell_type="cell") for cell in code_cells(facts)],
        "unknown type",
    ),
    "cells that are none": (
        lambda facts: facts["cells"].extend([None, 3, "x", [[]]]),
        "no cells: 4",
    ),
    "a huge cell": (
        lambda facts: facts["cells"].append(
            {"cell_type": "code", "source": "x" * 10**6 + "y", "metadata": {}}
        ),
        "1,000,000 characters: 1",
    ),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_harmless_change_needs_no_repair(submitted, lesson, change):
    change(submitted)
    assert notes_on(raw(submitted), lesson) == ()


@pytest.mark.parametrize("change, note", REPAIRED.values(), ids=REPAIRED)
def test_repair_keeps_the_answers_and_is_noted(submitted, lesson, change, note):
    change(submitted)
    assert note in " ".join(notes_on(raw(submitted), lesson))


@pytest.mark.parametrize(
    "encode, note",
    {
        "UTF-8": (lambda text: text.encode(), None),
        "CRLF": (lambda text: text.replace("\n", "\r\n").encode(), None),
        "BOM": (lambda text: text.encode("utf-8-sig"), "byte-order mark"),
        "UTF-16": (lambda text: text.encode("utf-16"), "UTF-16"),
        "UTF-16 without BOM": (lambda text: text.encode("utf-16-le"), "UTF-16"),
        "big-endian": (lambda text: text.encode("utf-16-be"), "UTF-16"),
        "UTF-32": (lambda text: text.encode("utf-32"), "UTF-32"),
        "Latin-1": (lambda text: text.encode("latin-1", "ignore"), "replaced by"),
        "NUL bytes behind": (lambda text: text.encode() + b"\0" * 512, None),
        "text behind": (lambda text: text.encode() + b"\n{}", "behind the notebook"),
    }.values(),
    ids=lambda value: None if callable(value) else value or "no note",
)
def test_encodings(submitted, lesson, encode, note):
    submitted["cells"].append(
        {"cell_type": "markdown", "source": "Größe", "id": "m", "metadata": {}}
    )
    text = json.dumps(submitted, indent=1, ensure_ascii=False)
    notes = notes_on(encode(text), lesson)
    assert notes == () if note is None else note in notes[0]


def test_line_ends_of_windows_inside_cells_become_plain(submitted, lesson):
    for cell in submitted["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    assert notes_on(raw(submitted), lesson) == ()


def test_nan_in_metadata_is_dropped_and_noted(submitted, lesson):
    submitted["metadata"]["x"] = float("nan")
    submitted["cells"][1]["metadata"]["nbgrader"]["points"] = float("inf")
    assert "NaN or Infinity" in notes_on(raw(submitted), lesson)[0]


@pytest.mark.parametrize("bad", ["\0", "\ud800", "\udfff\0"], ids=ascii)
def test_text_that_no_file_can_hold_is_taken_out(submitted, bad):
    cell = next(c for c in submitted["cells"] if c["id"] == "double")
    cell["source"] = f"{ANSWERS['double']}  # a{bad}"
    found = parsed(raw(submitted))
    assert "no program may hold: 1" in found.notes[0]
    text = nbformat.writes(found.notebook).encode()
    assert b"\\u0000" not in text and b"x + x" in text


def test_only_what_grading_needs_survives(submitted):
    save_in_colab(submitted)
    run_it(submitted)
    for cell in submitted["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]
        cell["metadata"].setdefault("nbgrader", {})["more"] = {"deep": [1]}
    notebook = parsed(raw(submitted)).notebook
    assert notebook.metadata == {}
    for cell in notebook.cells:
        keys = {"cell_type", "id", "metadata", "source"}
        is_code = cell.cell_type == "code"
        assert set(cell) == keys | (
            {"outputs", "execution_count"} if is_code else set()
        )
        assert set(cell.metadata) <= {"nbgrader"}
        for value in cell.metadata.get("nbgrader", {}).values():
            assert isinstance(value, str | int | float)
    text = nbformat.writes(notebook)
    for gone in ("Ada", "photo", "<script>", "provenance", "skip-execution", "deep"):
        assert gone not in text


@pytest.mark.parametrize(
    "marks",
    ["x", 7, [1], None, {"grade_id": ["double"]}, {"grade_id": {}, "points": "9"}],
    ids=repr,
)
def test_marks_of_a_wrong_type_are_dropped(submitted, lesson, marks):
    for cell in submitted["cells"]:
        cell["metadata"] = {"nbgrader": marks}
    assert notes_on(raw(submitted), lesson) == ()
    for cell in parsed(raw(submitted)).notebook.cells:
        assert cell.metadata.get("nbgrader", {}) == {}


def office_file():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    return buffer.getvalue()


NOTEBOOK = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": %s}'
NO_NOTEBOOK = {
    "empty": (b"", "is empty"),
    "blank": (b" \r\n\t\n", "is empty"),
    "zeros": (b"\0" * 4096, "is empty"),
    "only a BOM": (b"\xff\xfe", "is empty"),
    "log-in page": (b"<!DOCTYPE html><html>Sign in</html>", "This is a web page"),
    "page with BOM": ("\ufeff\n<html></html>".encode(), "This is a web page"),
    "script": (b"import jax\n\nx = 1\n", "a Python script"),
    "percent script": (b"# %% [markdown]\n# Hello\n", "a Python script"),
    "plain text": (b"Dear teacher, my file is here.", "plain text"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "a PDF file"),
    "Word": (office_file(), "office document"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture"),
    "pickle": (pickle.dumps({"cells": []}), "a pickle"),
    "checkpoint": (b"\x89HDF\r\n\x1a\n" + bytes(100), "checkpoint"),
    "NumPy": (b"\x93NUMPY\x01\x00", "a NumPy file"),
    "binary": (bytes(range(256)) * 8, "no text"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    "broken off": (NOTEBOOK % b'[{"cell_type": "code", "sour', "breaks off"),
    "broken off in text": (b'{"cells": [{"source": ["a = ', "breaks off"),
    "merge conflict": (b'{\n<<<<<<< HEAD\n"a": 1,\n=======\n', "merge conflict"),
    "damaged": (b'{"nbformat": 4, cells: []}', "damaged in line 1"),
    "null": (b"null", "not a notebook"),
    "list": (b'[{"cells": []}]', "a list of data"),
    "settings": (b'{"theme": "dark"}', "no notebook"),
    "cells are text": (NOTEBOOK % b'"none"', "no notebook"),
    "cells are an object": (NOTEBOOK % b'{"0": {}}', "no notebook"),
    "no cells": (NOTEBOOK % b"[]", "has no cells"),
    "blank cells": (NOTEBOOK % b'[{"cell_type": "code", "source": " "}]', "any text"),
    "numbers for text": (
        NOTEBOOK % b'[{"cell_type": "code", "source": 5}]',
        "any text",
    ),
    "far future": (NOTEBOOK.replace(b"4,", b"99,") % b"[{}]", "format is 99.5"),
    "nested lists": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "nested objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "nested cells": (NOTEBOOK % (b"[" * 10**5 + b"]" * 10**5), "nested too deeply"),
    "millions of lists": (NOTEBOOK % (b"[" + b"[]," * 5_000_000), "too much data"),
    "thousands of cells": (NOTEBOOK % (b"[" + b"{}," * 5000 + b"{}]"), "5,001 cells"),
    "much text": (
        NOTEBOOK % raw([{"cell_type": "raw", "source": "x" * 900_000}] * 10),
        "hold 9,000,000 characters",
    ),
}


@pytest.mark.parametrize("data, reason", NO_NOTEBOOK.values(), ids=NO_NOTEBOOK)
def test_what_is_no_notebook_gets_a_reason_and_a_remedy(data, reason):
    found = parsed(data)
    assert found.notebook is None
    assert reason in found.reasons[0]
    assert len(found.reasons[0].split(". ")) > 1


def test_random_damage_never_raises(submitted, lesson):
    whole, chance = raw(submitted, indent=1), random.Random(0)
    alphabet = b'{}[]",:\\\0\xff\xd8eE-9ntf '
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(data))
            size = chance.choice([0, 1, 1, 50])
            data[place : place + size] = [chance.choice(alphabet)]
        found = parsed(bytes(data))
        if found.notebook is not None:
            extract_answers(found.notebook, lesson)


def test_whatever_else_goes_wrong_becomes_a_reason(monkeypatch, submitted):
    def fail(data):
        raise SystemError("something new")

    monkeypatch.setattr(reading, "repair", fail)
    assert "(SystemError)" in parsed(raw(submitted)).reasons[0]


def zipped(contents, mode=0, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10))
            info.external_attr = mode << 16
            archive.writestr(info, data, method)
    return buffer.getvalue()


def encrypted(data):
    """Marks the entries of an archive as encrypted."""
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(signature) + offset
        data = data[:place] + bytes([data[place] | 1]) + data[place + 1 :]
    return data


def read(folder, contents) -> SubmittedFile:
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return read_submission(folder, NAME)


def graded(found) -> str:
    """Returns the text of the notebook that was read."""
    assert found.notebook is not None, found.reasons
    return "".join(cell.source for cell in found.notebook.cells)


def with_mark(submitted, mark):
    cells = [
        *submitted["cells"],
        {"cell_type": "code", "source": mark, "id": "mark", "metadata": {}},
    ]
    return raw(submitted | {"cells": cells})


def test_file_of_the_lessons_name_counts_and_the_others_do_not(tmp_path, submitted):
    names = [f"{NAME}.ipynb", f"{NAME}-Copy1.ipynb", "other.ipynb", "a.pdf", "b.zip"]
    found = read(tmp_path, {name: with_mark(submitted, name) for name in names})
    assert graded(found).endswith(names[0])
    assert found.data == with_mark(submitted, names[0])
    assert "lacked a part" in " ".join(found.notes) and len(found.notes) == 1


@pytest.mark.parametrize(
    "name",
    [
        "01 (1).ipynb",
        "01_tiny(2).ipynb",
        "01_tiny-Copy1.ipynb",
        "Copy of 01_tiny.ipynb",
        "01_TINY.IPYNB",
        "ada 01 tiny.ipynb",
        "lesson1.ipynb",
        "Untitled.ipynb",
    ],
)
def test_renamed_file_is_graded_with_a_note(tmp_path, submitted, name):
    found = read(tmp_path, {name: raw(submitted), "start.py": b"", "data.csv": b""})
    assert found.notebook is not None
    assert found.notes == (f'"{name}" was graded, as there is no {NAME}.ipynb.',)


def test_name_that_fits_best_counts_then_the_newest(tmp_path, submitted):
    names = ["02_more.ipynb", "01 (1).ipynb", "old 01_tiny.ipynb", "new 01_tiny.ipynb"]
    for age, name in enumerate(names):
        (tmp_path / name).write_bytes(with_mark(submitted, name))
        os.utime(tmp_path / name, (10**9 - age, 10**9 - age))
    os.utime(tmp_path / names[3], (2 * 10**9, 2 * 10**9))
    found = read_submission(tmp_path, NAME)
    assert graded(found).endswith("new 01_tiny.ipynb")
    assert 'Left out: "02_more.ipynb"' in found.notes[0]


def test_single_file_can_be_named_itself(tmp_path, submitted):
    path = tmp_path / f"{NAME}.ipynb"
    path.write_bytes(raw(submitted))
    assert read_submission(path, NAME) == parse_submission(raw(submitted))


@pytest.mark.parametrize(
    "contents, reason",
    {
        "nothing": ({}, "No file was handed in."),
        "nbgrader's and hidden files": (
            {"timestamp.txt": b"now", ".DS_Store": b"", "._01_tiny.ipynb": b""},
            "No file was handed in.",
        ),
        "script": ({"01_tiny.py": b"import jax"}, "This is a Python script"),
        "one odd file": ({"hand-in.docx": office_file()}, "office document"),
        "odd files": ({"a.csv": b"", "b.txt": b""}, 'only "a.csv", "b.txt".'),
        "empty": ({"01_tiny.ipynb": b""}, "The file is empty"),
    }.values(),
    ids=["nothing", "hidden files", "script", "Word", "odd files", "empty"],
)
def test_folder_without_a_notebook_gets_a_reason(tmp_path, contents, reason):
    assert reason in read(tmp_path, contents).reasons[0]


def test_missing_folder_gets_a_reason(tmp_path):
    assert "No file" in read_submission(tmp_path / "none", NAME).reasons[0]


NO_FILES = {
    "link to a file": (lambda p: p.symlink_to("/etc/passwd"), "is a link"),
    "link to nothing": (lambda p: p.symlink_to("/nowhere"), "is a link"),
    "link to itself": (lambda p: p.symlink_to(p), "is a link"),
    "pipe": (os.mkfifo, "is a named pipe"),
    "folder": (lambda p: p.mkdir(), "is a folder"),
}


@pytest.mark.parametrize("make, reason", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_not_opened(tmp_path, make, reason):
    path = tmp_path / f"{NAME}.ipynb"
    make(path)
    expected = f'"{NAME}.ipynb" {reason}. '
    assert read_submission(tmp_path, NAME).reasons[0].startswith(expected)
    if not path.is_dir():
        assert read_submission(path, NAME).reasons[0].startswith(expected)


def test_link_that_takes_the_files_place_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    real = os.lstat(tmp_path / "secret")
    monkeypatch.setattr(safe_reading.os, "lstat", lambda path: real)
    with pytest.raises(OSError, match="symbolic links"):
        safe_reading.read_file(tmp_path / "link", 100)


def test_file_over_the_limit_is_not_read(tmp_path):
    with open(tmp_path / f"{NAME}.ipynb", "wb") as file:
        file.truncate(200 << 20)
    found = read_submission(tmp_path, NAME)
    assert found.reasons[0].startswith(
        f'"{NAME}.ipynb" has 200 MB; the limit is 64 MB. Clear its outputs '
        "(Kernel > Restart Kernel and Clear Outputs), save and hand in again."
    )
    assert found.data == b""


def test_what_the_machine_cannot_read_is_not_the_learners_fault(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.ipynb").write_bytes(b"{}")

    def fail(*arguments):
        raise PermissionError(13, "no")

    monkeypatch.setattr(safe_reading.os, "open", fail)
    with pytest.raises(PermissionError):
        read_submission(tmp_path, NAME)


@pytest.mark.parametrize("inner", [f"{NAME}.ipynb", f"ada/mine/{NAME}.ipynb"])
def test_notebook_is_taken_out_of_an_archive(tmp_path, submitted, inner):
    contents = {inner: raw(submitted), f"__MACOSX/._{NAME}.ipynb": b"x", "a.txt": b""}
    found = read(tmp_path, {"hand-in.zip": zipped(contents)})
    assert found.notebook is not None
    assert f'"{NAME}.ipynb" in "hand-in.zip" was graded' in found.notes[0]
    assert found.data == zipped(contents)


def test_archive_with_a_comment_or_something_behind_it_is_fine(tmp_path, submitted):
    buffer = io.BytesIO(zipped({f"{NAME}.ipynb": raw(submitted)}))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"made by Ada"
    found = read(tmp_path, {"a.zip": buffer.getvalue() + b"\0" * 100})
    assert found.notebook is not None


def test_notebook_beside_an_archive_counts(tmp_path, submitted):
    found = read(tmp_path, {"a.ipynb": raw(submitted), "01_tiny.zip": b"PK"})
    assert found.notebook is not None


BOMB = {f"{NAME}.ipynb": bytes(reading.MAX_BYTES + 1)}
PLAIN = {f"{NAME}.ipynb": b"{}"}
STORED = zipped(PLAIN, method=zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    "data, reason",
    {
        "damaged": (b"PK\x03\x04 and no more", "is a damaged archive"),
        "no archive": (b"hello", "is a damaged archive"),
        "empty": (zipped({}), "holds no notebook, but no file"),
        "other files": (zipped({"a.txt": b"", "b.zip": b""}), 'but "a.txt", "b.zip"'),
        "damaged file": (STORED.replace(b"{}", b"[]"), "is damaged (BadZipFile)"),
        "encrypted": (encrypted(zipped(PLAIN)), "is encrypted"),
        "link": (zipped(PLAIN, mode=0o120777), "is a link"),
        "device": (zipped(PLAIN, mode=0o020666), "is a device"),
        "parent": (zipped({f"../../{NAME}.ipynb": b"{}"}), "leads out of the archive"),
        "absolute": (zipped({f"/etc/{NAME}.ipynb": b"{}"}), "leads out of the archive"),
        "backslashes": (zipped({f"..\\{NAME}.ipynb": b"{}"}), "leads out"),
        "drive": (zipped({f"C:\\{NAME}.ipynb": b"{}"}), "leads out of the archive"),
        "bomb": (zipped(BOMB), "has 65 MB; the limit is 64 MB"),
        "no notebook": (zipped(PLAIN), "no notebook"),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_archive_gets_a_reason(tmp_path, data, reason):
    found = read(tmp_path, {"hand-in.zip": data})
    assert found.notebook is None
    assert reason in found.reasons[0]
    assert found.data == data


def test_archive_with_too_many_files_gets_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(safe_reading, "MAX_ENTRIES", 10)
    data = zipped({f"{number}.ipynb": b"" for number in range(11)})
    assert "holds 11 files" in read(tmp_path, {"a.zip": data}).reasons[0]


def test_digest_tells_apart_what_would_be_told_apart(tmp_path, submitted):
    found = read(tmp_path, {f"{NAME}.ipynb": raw(submitted)})
    assert found.digest == parse_submission(raw(submitted)).digest
    (tmp_path / f"{NAME}.ipynb").rename(tmp_path / "01.ipynb")
    renamed = read_submission(tmp_path, NAME)
    none, link = (SubmittedFile(None, reasons=(why,)) for why in ("none.", "link."))
    digests = [found.digest, renamed.digest, none.digest, link.digest]
    assert len(set(digests)) == 4


def notebook_of(*cells):
    cells = [nbformat.v4.new_code_cell(text) for text in cells]
    return nbformat.v4.new_notebook(cells=cells)


def test_this_lesson_is_no_other_one(submitted, lesson):
    for data in (raw(submitted), nbformat.writes(lesson).encode()):
        assert why_other_lesson(parsed(data).notebook, lesson, NAME) == ""


@pytest.mark.parametrize(
    "cell",
    ["# exercise: double\nx = 1", "import jax\n\n\ndef negate(x):\n    return x"],
    ids=["comment", "function"],
)
def test_one_exercise_is_enough(lesson, cell):
    assert why_other_lesson(notebook_of(cell), lesson, NAME) == ""


def test_other_lesson_is_named(lesson):
    text = "This is not lesson 01_tiny: none of its exercises are in it."
    remedy = "Hand in the notebook that holds double, negate."
    ring = "# exercise: ring_shift\ndef ring_shift(x):\n    return x"
    other = notebook_of(ring)
    found = why_other_lesson(other, lesson, NAME)
    assert found == f"{text} It holds ring_shift. {remedy}"
    title = nbformat.v4.new_markdown_cell("# Lesson 3. Meshes\n\nMore.")
    other.cells.insert(0, title)
    found = why_other_lesson(other, lesson, NAME)
    assert found == f"{text} Its title says that it is lesson 3. {remedy}"
    assert why_other_lesson(notebook_of("x = 1"), lesson, NAME) == f"{text} {remedy}"
