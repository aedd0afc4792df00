"""Whatever happened to a file, the answers in it count, or a reason says why not.

One table: what the file is, the status that it must get, and words of its note or
reason. No kernel starts: a file is graded in full if its answers, in the clean lesson,
are those of the unchanged notebook.
"""

import base64
import copy
import json
import os
import pickle
import random
import zipfile

import nbformat
import pytest
from submitted import ANSWERS, cell, data_of, encrypted, zipped

from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.trial import CheckedExercise, Trial
from grader.results import Outcome, Status
from grader.submissions.answers import Answers, extract_answers, fill_in
from grader.submissions.read_submission import parse_submission, read_submission

NAME = "01_tiny"
FILE = f"{NAME}.ipynb"
WRONG = ANSWERS["double"].replace("x + x", "x")


class Judge:
    """Stands for the judge: nothing is run here."""

    material = dict.fromkeys(("setup", "definitions", "functions", "checks"))

    def begin_submission(self):
        pass


def without_running(trial, on_exercise=None):
    return dict.fromkeys(trial.exercises, CheckedExercise(Outcome.FAILED))


def code_cells(facts):
    return [c for c in facts["cells"] if c["cell_type"] == "code"]


def each(change):
    """Makes a variation that changes every cell."""

    def make(facts):
        for number, one in enumerate(facts["cells"]):
            change(one, number)
        return facts

    return make


def changed(change):
    """Makes a variation that changes the notebook's JSON in place."""

    def make(facts):
        change(facts)
        return facts

    return make


def written_as(encode):
    """Makes a variation in which only the encoding differs."""

    def make(facts):
        facts["cells"][0]["source"].append("Größe")
        return encode(json.dumps(facts, indent=1, ensure_ascii=False))

    return make


def files(contents):
    """Writes several files, or one of another name."""
    return lambda folder: [(folder / n).write_bytes(d) for n, d in contents.items()]


def named(name):
    return lambda facts: files({name: data_of(facts)})


def constant(data):
    return lambda facts: data


def minor(number):
    """Lowers the format to 4.`number`, which has no cell ids."""

    def make(facts):
        facts["nbformat_minor"] = number
        for one in facts["cells"]:
            del one["id"]
        return facts

    return make


def format_3(facts):
    facts = minor(0)(facts)
    for one in facts["cells"]:
        one["source"] = "".join(one["source"])
    return json.loads(json.dumps(nbformat.v4.downgrade(nbformat.from_dict(facts))))


def format_3_of_several_sheets(facts):
    """Has its lines one by one, a heading, and a cell of HTML."""
    facts = format_3(facts)
    [sheet] = facts["worksheets"]
    for one in sheet["cells"]:
        if "input" in one:
            one["input"] = one["input"].splitlines(True)
    heading = {"cell_type": "heading", "level": 2, "source": ["Mine"], "metadata": {}}
    html = {"cell_type": "html", "source": "<b>Mine</b>", "metadata": {}}
    facts["worksheets"] = [{"cells": [heading, html]}, sheet]
    return facts


def saved_in_colab(facts):
    user = {"displayName": "Ada Lovelace", "photoUrl": "https://example.org/ada.jpg"}
    facts["metadata"] = {"accelerator": "TPU", "colab": {"name": "Ada Lovelace"}}
    for number, one in enumerate(facts["cells"]):
        one["metadata"] |= {"id": f"x{number}", "executionInfo": {"user": user}}
    badge = {"cell_type": "markdown", "source": "<a><img/></a>", "id": "badge"}
    facts["cells"].insert(0, badge | {"metadata": {"id": "view-in-github"}})
    return minor(0)(facts)


def saved_in_vs_code(facts):
    facts["metadata"] = {"language_info": {"name": "python"}, "orig_nbformat": 4}
    for number, one in enumerate(facts["cells"]):
        one["metadata"]["vscode"] = {"languageId": "python"}
        one["id"] = f"{number:08x}"
    return facts


def with_outputs(facts):
    noise = random.Random(0).randbytes(2_000_000)
    picture = {"image/png": base64.b64encode(noise).decode(), "text/html": "<script>"}
    outputs = [{"output_type": "display_data", "data": picture, "metadata": {}}]
    outputs += [{"output_type": "error", "ename": "Wrong", "traceback": ["no"]}, "junk"]
    for number, one in enumerate(code_cells(facts)):
        one.update(execution_count=99 - number, outputs=outputs)
    facts["cells"][0]["attachments"] = {"me.png": picture}
    return facts


def forgotten(facts, *, comments=False):
    """Loses all metadata and ids, and the comments too."""
    facts["metadata"] = {}
    for number, one in enumerate(facts["cells"]):
        one["metadata"], one["id"] = {}, f"new-{number}"
        if comments and "".join(one["source"]).startswith("# exercise: "):
            del one["source"][0]
    return facts


def renamed_grade_ids(facts):
    for number, one in enumerate(facts["cells"]):
        one["id"] = f"new-{number}"
        if "grade_id" in one["metadata"].get("nbgrader", {}):
            one["metadata"]["nbgrader"]["grade_id"] += "-copy"
    return facts


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def foreign_marks(one, number):
    if "nbgrader" in one["metadata"]:
        version = (0, 1, 2, 99, "four", [1])[number % 6]
        one["metadata"]["nbgrader"] |= {"schema_version": version, "colour": "blue"}


def copied(name, *, source=None, above=False):
    """Makes a variation in which a cell is there twice."""

    def make(facts):
        one = cell(facts, name)
        second = copy.deepcopy(one) | {"id": "second"}
        if source:
            second["source"] = source
        facts["cells"].insert(facts["cells"].index(one) + (not above), second)
        return facts

    return make


def moved_to_the_top(facts):
    one = cell(facts, "negate")
    facts["cells"].remove(one)
    facts["cells"].insert(0, one)


ADDED = (("check-double", "print(observe(double, 4))"),)


def checks_edited(facts):
    cell(facts, "check-double")["source"].append(f"\n{ADDED[0][1]}")
    facts["cells"].remove(cell(facts, "check-negate"))


def nan_in_metadata(facts):
    facts["metadata"]["widgets"] = {"loss": float("nan"), "lr": float("-inf")}
    marks = cell(facts, "check-double")["metadata"]["nbgrader"]
    marks["points"] = float("inf")


def as_text(facts):
    cell(facts, "double").update(cell_type="markdown")


def in_archive(facts, name=FILE):
    litter = {f"__MACOSX/._{FILE}": b"\0" * 200, ".DS_Store": b"\0", "a.txt": b""}
    return files({"homework.zip": zipped({name: data_of(facts), **litter})})


def with_stated_size(data, size):
    """Changes the size of its content that an archive states."""
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = data.index(signature) + offset
        data = data[:place] + size.to_bytes(4, "little") + data[place + 4 :]
    return data


def archive_of(contents, **options):
    return constant(files({"homework.zip": zipped(contents, **options)}))


def beside(facts):
    litter = {".DS_Store": b"\0", "Thumbs.db": b"\0", "data.csv": b"a,b\n"}
    copies = {f"{NAME}-Copy1.ipynb": b"{", "other.ipynb": b"{", "b.zip": b""}
    return files({FILE: data_of(facts), "timestamp.txt": b"now", **litter, **copies})


def huge(facts):
    """Writes a file of 200 MB, most of which is a hole."""

    def put(folder):
        with open(folder / FILE, "wb") as file:
            file.truncate(200 << 20)

    return put


def symlink(target):
    return lambda facts: lambda folder: (folder / FILE).symlink_to(target)


def symlink_to_neighbour(facts):
    def put(folder):
        (folder.parent / "neighbour.ipynb").write_bytes(data_of(facts))
        (folder / FILE).symlink_to("../neighbour.ipynb")

    return put


def folder_named_so(facts):
    def put(folder):
        (folder / FILE).mkdir()
        (folder / FILE / FILE).write_bytes(data_of(facts))

    return put


def undecodable_name(facts):
    def put(folder):
        with open(os.fsencode(folder) + b"/\xdcbung_1.ipynb", "wb") as file:
            file.write(data_of(facts))

    return put


def conflict(facts):
    mark = '<<<<<<< HEAD\n "nbformat": 4,\n=======\n "nbformat": 4,\n>>>>>>> mine'
    return data_of(facts).decode().replace('"nbformat": 4,', mark).encode()


def truncated(facts):
    data = data_of(facts)
    return data[: len(data) * 2 // 3]


def cut_after(part):
    def cut(facts):
        data = data_of(facts)
        return data[: data.index(part) + len(part)]

    return cut


def nested_metadata(facts):
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    facts["metadata"] = "DEEP"
    return data_of(facts).replace(b'"DEEP"', deep)


def another_lesson(facts):
    facts["cells"] = facts["cells"][:1]
    facts["cells"][0]["source"] = "# Lesson 2. Collectives"
    ring = "# exercise: ring_shift\ndef ring_shift(x):\n    return x[::-1]"
    ring_cell = {"cell_type": "code", "source": ring, "metadata": {}, "id": "ring"}
    facts["cells"].append(ring_cell)


GRADED, NOTE, ERROR = Status.GRADED, Status.GRADED_WITH_NOTE, Status.STUDENT_ERROR
LONG_CELL = {"cell_type": "code", "source": "x" * 10**6 + "y", "metadata": {}}
NOTEBOOK = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": %s}'
PLAIN = {FILE: b"{}"}
STORED = zipped(PLAIN, method=zipfile.ZIP_STORED)
ZEROS = zipped({FILE: bytes(140 << 20)})
OUT = {"../" * 8 + "tmp/out.ipynb": b"{}", "/tmp/out.ipynb": b"{}"}
PAGE = b'<!DOCTYPE html>\n<html><form action="/login"></form>Sign in</html>'

# What does not change anything.
UNCHANGED = {
    "as JupyterLab writes it": (lambda facts: facts, GRADED),
    "CRLF in the file": (
        written_as(lambda t: t.replace("\n", "\r\n").encode()),
        GRADED,
    ),
    "CRLF in the cells": (
        each(lambda c, n: c.update(source="".join(c["source"]).replace("\n", "\r\n"))),
        GRADED,
    ),
    "NUL bytes at the end": (written_as(lambda t: t.encode() + b"\0" * 512), GRADED),
    "format 4.0": (minor(0), GRADED),
    "format 4.2": (minor(2), GRADED),
    "format 4.4": (minor(4), GRADED),
    "format 4.99": (changed(lambda f: f.update(nbformat_minor=99)), GRADED),
    "Colab's format": (saved_in_colab, GRADED),
    "VS Code's format": (saved_in_vs_code, GRADED),
    "no format": (changed(lambda f: f.pop("nbformat")), GRADED),
    "new cell ids": (each(lambda c, n: c.update(id=f"{n:08x}")), GRADED),
    "keys in reverse order": (reordered, GRADED),
    "each source as one string": (
        each(lambda c, n: c.update(source="".join(c["source"]))),
        GRADED,
    ),
    "stale and huge outputs": (with_outputs, GRADED),
    "no outputs": (each(lambda c, n: c.pop("outputs", None)), GRADED),
    "another kernel": (changed(lambda f: f["metadata"].update(kernelspec=7)), GRADED),
    "no metadata of the notebook": (changed(lambda f: f.pop("metadata")), GRADED),
    "metadata that is text": (changed(lambda f: f.update(metadata="x")), GRADED),
    "unknown keys": (changed(lambda f: f.update(authors=["ada"], v={"a": 1})), GRADED),
    "tags": (each(lambda c, n: c["metadata"].update(tags=["skip"])), GRADED),
    "nbgrader's marks of other versions": (each(foreign_marks), GRADED),
    "no text cells": (changed(lambda f: f.update(cells=code_cells(f))), GRADED),
    "cells in another order": (changed(moved_to_the_top), GRADED),
    "a check twice": (copied("check-double"), GRADED),
    "checks edited and deleted": (changed(checks_edited), GRADED),
    "other files beside it": (beside, GRADED),
    "NaN": (changed(nan_in_metadata), GRADED),
    "NUL in a cell": (
        changed(lambda f: cell(f, "double")["source"].append("\0")),
        GRADED,
    ),
} | {
    f"marks that are {marks!r}": (
        each(lambda c, n, marks=marks: c.update(metadata={"nbgrader": marks})),
        GRADED,
    )
    for marks in ("x", 7, [1], None, {"grade_id": ["double"]}, {"grade_id": {}})
}
REPAIRED = {
    "byte-order mark": (
        written_as(lambda text: text.encode("utf-8-sig")),
        NOTE,
        "byte-order mark",
    ),
    "UTF-16": (written_as(lambda text: text.encode("utf-16")), NOTE, "UTF-16"),
    "UTF-16 without a mark": (
        written_as(lambda text: text.encode("utf-16-le")),
        NOTE,
        "UTF-16",
    ),
    "UTF-32": (written_as(lambda text: text.encode("utf-32")), NOTE, "UTF-32"),
    "Latin-1": (
        written_as(lambda text: text.encode("latin-1", "ignore")),
        NOTE,
        "replaced by",
    ),
    "format 3": (format_3, NOTE, "converted to format 4"),
    "format 3, several sheets": (
        format_3_of_several_sheets,
        NOTE,
        "converted to format 4",
    ),
    "no ids": (lambda facts: minor(5)(facts), NOTE, "unique id: 16."),
    "one id for all": (each(lambda c, n: c.update(id="x")), NOTE, "unique id: 15."),
    "entries that are no cells": (
        changed(lambda f: f["cells"].extend([None, 3, "x", [[]], {"a": 1}])),
        NOTE,
        "1,000,000 characters: 5.",
    ),
    "a huge cell": (
        changed(lambda f: f["cells"].append(LONG_CELL)),
        NOTE,
        "1,000,000 characters: 1.",
    ),
    "lost metadata": (forgotten, NOTE, "were known by their comment or function"),
    "lost metadata and comments": (
        lambda facts: forgotten(facts, comments=True),
        NOTE,
        "were known by their comment or function",
    ),
    "renamed grade ids": (renamed_grade_ids, NOTE, "comment or function"),
    "an exercise twice": (copied("double"), NOTE, "double has 2 cells"),
    "a first attempt above": (
        copied("double", source=WRONG, above=True),
        NOTE,
        "double has 2 cells",
    ),
    "the stub above": (
        copied("double", source="# exercise: double", above=True),
        NOTE,
        "double has 2 cells",
    ),
    "an answer in a text cell": (changed(as_text), NOTE, "is a text cell"),
    "an archive": (in_archive, NOTE, f'"homework.zip/{FILE}" was graded'),
    "an archive with folders": (
        lambda facts: in_archive(facts, f"ada/mine/{FILE}"),
        NOTE,
        f'"homework.zip/ada/mine/{FILE}" was graded',
    ),
    "an archive with a comment": (
        lambda facts: files({"a.zip": zipped({FILE: data_of(facts)}, comment=b"Ada")}),
        NOTE,
        f'"a.zip/{FILE}" was graded',
    ),
    "a notebook beside an archive": (
        lambda facts: files({"a.ipynb": data_of(facts), f"{NAME}.zip": b"PK"}),
        NOTE,
        '"a.ipynb" was graded',
    ),
    "a name with control characters": (
        named("-rf\n\t\x1b[2J 01 tiny.ipynb"),
        NOTE,
        '"-rf 01 tiny.ipynb" was graded',
    ),
    "a name that is a formula": (
        named('=HYPERLINK("x","10 of 10").ipynb'),
        NOTE,
        "was graded",
    ),
    "a name from right to left": (
        named("01_tiny\u202egpj.ipynb"),
        NOTE,
        '"01_tinygpj.ipynb" was graded',
    ),
    "a name with markup": (named("<img src=x onerror=alert(1)>.ipynb"), NOTE, "<img"),
    "a name that is no UTF-8": (undecodable_name, NOTE, '"bung_1.ipynb" was graded'),
} | {
    name: (named(name), NOTE, f'"{name}" was graded, as there is no {FILE}.')
    for name in (
        "01 (1).ipynb",
        "01_tiny(2).ipynb",
        "01_tiny-Copy1.ipynb",
        "Copy of 01_tiny.ipynb",
        "01_TINY.IPYNB",
        "ada 01 tiny.ipynb",
        "lesson1.ipynb",
        "Untitled.ipynb",
    )
}
NO_NOTEBOOK = {
    "empty": (b"", "The file is empty"),
    "blank": (b" \r\n\t\n", "The file is empty"),
    "zeros": (b"\0" * 4096, "The file is empty"),
    "only a byte-order mark": (b"\xff\xfe", "The file is empty"),
    "log-in page": (PAGE, "This is a web page"),
    "page with a byte-order mark": (b"\xef\xbb\xbf\n" + PAGE, "This is a web page"),
    "Python script": (b"import jax\n\nx = 1\n", "a Python script"),
    "answers as a script": ("\n\n".join(ANSWERS.values()).encode(), "a Python script"),
    "percent script": (b"# %% [markdown]\n# Hello\n", "a Python script"),
    "plain text": (b"Dear teacher, my file is here.", "plain text"),
    "zip": (STORED, "This is an archive"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "a binary file"),
    "picture": (
        b"\x89PNG\r\n\x1a\n" + random.Random(0).randbytes(5000),
        "a binary file",
    ),
    "pickle": (pickle.dumps({"cells": []}), "a binary file"),
    "binary": (bytes(range(256)) * 8, "a binary file"),
    "broken off": (NOTEBOOK % b'[{"cell_type": "code", "sour', "breaks off"),
    "broken off in text": (b'{"cells": [{"source": ["a = ', "breaks off"),
    "broken off behind a value": (b'{"nbformat": 4,\n', "breaks off in line 1"),
    "merge conflict": (b'{\n<<<<<<< HEAD\n"a": 1,\n=======\n', "a Git merge conflict"),
    "merge conflict at the top": (b"<<<<<<< HEAD\n{}", "a Git merge conflict"),
    "damaged": (b'{"nbformat": 4, cells: []}', "damaged in line 1"),
    "two notebooks": (NOTEBOOK % b"[]" + b"\n{}", "damaged in line 2"),
    "null": (b"null", "not a notebook"),
    "list": (b'[{"cells": []}]', "a list of data"),
    "settings": (b'{"name": "ada", "theme": "dark"}', "no notebook"),
    "cells that are text": (NOTEBOOK % b'"none"', "no notebook"),
    "cells that are an object": (NOTEBOOK % b'{"0": {}}', "no notebook"),
    "no cells": (NOTEBOOK % b"[]", "any text"),
    "blank cells": (NOTEBOOK % b'[{"cell_type": "code", "source": " "}]', "any text"),
    "numbers for text": (NOTEBOOK % b'[{"cell_type": "raw", "source": 5}]', "any text"),
    "far future": (NOTEBOOK.replace(b"4,", b"99,") % b"[{}]", "format is unknown"),
    "format that is text": (NOTEBOOK.replace(b"4,", b'"4",') % b"[]", "is unknown"),
    "damaged format 3": (b'{"nbformat": 3, "worksheets": 1}', "format is unknown"),
    "format 3 of a list": (b'{"nbformat": 3, "worksheets": [[]]}', "format is unknown"),
    "format 3 of nothing": (
        b'{"nbformat": 3, "worksheets": [{"cells": [1]}]}',
        "format is unknown",
    ),
    "format of tomorrow": (b'{"nbformat": 5, "cells": []}', "format is unknown"),
    "nested lists": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "nested cells": (NOTEBOOK % (b"[" * 10**5 + b"]" * 10**5), "nested too deeply"),
    "thousands of cells": (NOTEBOOK % (b"[" + b"{}," * 5000 + b"{}]"), "5,001 cells"),
    "much text": (
        NOTEBOOK % data_of([{"cell_type": "raw", "source": "x" * 900_000}] * 10),
        "hold 9,000,000 characters",
    ),
}
NO_NOTEBOOK = {
    n: (constant(data), ERROR, said) for n, (data, said) in NO_NOTEBOOK.items()
}
NO_FILE = {
    "no file": (constant(files({})), "There is no file."),
    "only hidden files": (
        constant(
            files({"timestamp.txt": b"now", ".DS_Store": b"", "._01_tiny.ipynb": b""})
        ),
        "There is no file.",
    ),
    "a script of the lesson's name": (
        constant(files({"01_tiny.py": b"import jax"})),
        "This is a Python script",
    ),
    "one other file": (constant(files({"work.docx": STORED})), "office document"),
    "other files": (
        constant(files({"a.csv": b"", "b.txt": b""})),
        'only "a.csv", "b.txt".',
    ),
    "200 MB": (huge, f'"{FILE}" has 200 MB; the limit is 64 MB. Clear its outputs'),
    "nested metadata": (nested_metadata, "nested too deeply"),
    "truncated": (truncated, "breaks off in line"),
    "truncated in a word": (cut_after(b'"execution_count": nu'), "breaks off in line"),
    "truncated after a space": (cut_after(b'"execution_count": '), "breaks off in"),
    "truncated in an escape": (cut_after(b"\\"), "breaks off in line"),
    "merge conflict in a notebook": (conflict, "a Git merge conflict. Resolve it."),
    "another lesson": (
        changed(another_lesson),
        'Its title is "Lesson 2. Collectives".',
    ),
    "folder": (folder_named_so, f'"{FILE}" is a folder.'),
    "named pipe": (
        lambda facts: lambda folder: os.mkfifo(folder / FILE),
        f'"{FILE}" is a named pipe.',
    ),
    "link to a neighbour": (symlink_to_neighbour, f'"{FILE}" is a link.'),
    "link to a system's file": (symlink("/etc/passwd"), f'"{FILE}" is a link.'),
    "link to nowhere": (symlink("/Users/ada/01_tiny.ipynb"), f'"{FILE}" is a link.'),
    "link to itself": (symlink(FILE), f'"{FILE}" is a link.'),
    "damaged archive": (
        constant(files({"a.zip": b"PK\x03\x04 cut"})),
        "is a damaged archive",
    ),
    "archive that is none": (
        constant(files({"a.zip": b"hello"})),
        "is a damaged archive",
    ),
    "empty archive": (archive_of({}), "holds no notebook, but no file"),
    "archive of other files": (
        archive_of({"a.txt": b"", "b": b""}),
        'but "a.txt", "b"',
    ),
    "archive in an archive": (
        lambda facts: files(
            {"a.zip": zipped({"b.zip": zipped({FILE: data_of(facts)})})}
        ),
        'holds no notebook, but "b.zip"',
    ),
    "damaged file in an archive": (
        constant(files({"a.zip": STORED.replace(b"{}", b"[]")})),
        "is damaged (BadZipFile)",
    ),
    "encrypted archive": (
        constant(files({"a.zip": encrypted(STORED)})),
        "is encrypted",
    ),
    "link in an archive": (archive_of(PLAIN, mode=0o120777), "is a link"),
    "device in an archive": (archive_of(PLAIN, mode=0o020666), "is not a regular file"),
    "archive with parent folders": (archive_of(OUT), "leads out of the archive"),
    "archive with backslashes": (archive_of({f"..\\{FILE}": b"{}"}), "leads out"),
    "long name in an archive": (
        archive_of({"x" * 2000 + ".ipynb": b""}),
        "no notebook, but",
    ),
    "bomb": (
        constant(files({"01_tiny.zip": ZEROS, "b.zip": zipped({"c.zip": ZEROS})})),
        "has 140 MB; the limit is 64 MB",
    ),
    "bomb that states another size": (
        constant(files({"a.zip": with_stated_size(ZEROS, 10)})),
        "is damaged (BadZipFile)",
    ),
}
NO_FILE = {name: (make, ERROR, said) for name, (make, said) in NO_FILE.items()}
VARIATIONS = UNCHANGED | REPAIRED | NO_NOTEBOOK | NO_FILE


@pytest.mark.parametrize("name", VARIATIONS)
def test_variation_gets_its_status(name, facts, lesson, tmp_path, monkeypatch):
    make, status, *said = VARIATIONS[name]
    content, folder = make(facts), tmp_path / "submitted"
    folder.mkdir()
    if not callable(content):
        data = content if isinstance(content, bytes) else data_of(content)
        content = files({FILE: data})
    content(folder)
    submitted = read_submission(folder, NAME)
    monkeypatch.setattr(Trial, "run", without_running)
    result = grade_submission(submitted, lesson, NAME, Judge(), Limits())
    text = " ".join(result.notes + result.reasons)
    assert result.status is status, text
    assert " ".join(said) in text
    if status is ERROR:
        assert not result.notes and result.points == 0
        [reason] = result.reasons
        assert len(reason.split(". ")) > 1, "a remedy follows"
        return
    assert not result.reasons and bool(result.notes) == (status is NOTE)
    nbformat.validate(submitted.notebook)
    answers = extract_answers(submitted.notebook, lesson)
    expected = ANSWERS
    if name == "lost metadata and comments":
        expected = {n: source.partition("\n")[2] for n, source in ANSWERS.items()}
    changes = ADDED if name == "checks edited and deleted" else ()
    expected = Answers(expected, changes=changes)
    assert fill_in(lesson, answers) == fill_in(lesson, expected)


@pytest.mark.parametrize(
    "change, answers",
    [
        (lambda f: f["cells"].remove(cell(f, "double")), {}),
        (lambda f: cell(f, "double").update(source=WRONG), {"double": WRONG}),
    ],
    ids=["missing", "wrong"],
)
@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_a_repair_earns_nothing(facts, lesson, change, answers, lost):
    change(facts)
    facts = forgotten(facts) if lost else facts
    found = extract_answers(parse_submission(data_of(facts)).notebook, lesson)
    assert found.exercises == {"negate": ANSWERS["negate"]} | answers
