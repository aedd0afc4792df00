"""Makes the corpus: submissions of hostile and of unlucky learners.

Damaged files, for which no kernel starts: tests/submissions/test_file_variations.py.

A case is a file `<folder>/<name>.py`; the folder names the expected status. It holds a
docstring, POINTS, `submission(lesson)`, and some of these constants: TAMPERING (tries
to earn points without a correct answer; also run against stock nbgrader), SLOW (runs
into a limit), STATUS (only in harmless/), ALSO (names of statuses that would be right
as well, where the promises leave it open), LESSON (one of the course's, which it
answers in place of the corpus's own), BELIEVED (points that it earns by false reports
of what only the learner's process knows; see docs/handbook/not-defended.md), REASONS
(texts that the reasons for a review must hold).
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import importlib.util
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import nbformat
from hostile.corpus_lesson import NAME
from nbformat import NotebookNode

from grader.lessons.release import nbgrader_metadata, release
from grader.results import Status

FOLDERS = ("graded", "graded_with_note", "needs_review", "harmless")
FULL = {"double": 1, "normalize": 2, "parallel_square": 3, "negate": 4}
NOTHING = dict.fromkeys(FULL, 0)
# How the contained process's answers travel back to the judge.
ANSWER = "application/x-course-answer+json"
# A test of the grader may set this variable: no submission must come to see it.
SECRET = "COURSE_CORPUS_SECRET"
# What gets out of the containment by running code elsewhere would write this file.
MARKER = "/tmp/course-corpus-escaped"

# Stands before each dangerous payload, which then runs in the containment alone.
GUARD = """\
import os
if os.environ.get("COURSE_CONTAINED") != "1": raise SystemExit("only inside the \
containment")
"""
# Right, and worded unlike the lesson's own solutions.
ANSWERS = {
    "double": "def double(x):\n    return x + x",
    "normalize": """\
def normalize(x):
    if not len(x):
        raise ValueError(f"cannot normalize {len(x)} rows")
    return x - x.mean(axis=0)""",
    "parallel_square": """\
def parallel_square(x):
    return jax.pmap(lambda row: row * row)(x)""",
    "negate": "def negate(x):\n    return 0 - x",
}
# Answers the grader's requests by the notebook's functions, but says of every argument
# that it is as it was.
SERVES = """
import ast
import fcntl
import json
import stat
import struct
import sys

REQUEST, RAN = struct.Struct(">I?I"), set()
shell, channel = get_ipython(), get_ipython().channel
responder = sys.modules["grader.kernel.inside.responder"]


def pipe_of_requests():
    for number in range(3, 64):
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
            reads = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        except OSError:
            continue
        if is_pipe and reads:
            return number


def serve(pipe):
    os.set_blocking(pipe, True)
    while header := os.read(pipe, REQUEST.size):
        channel.cell, _, size = REQUEST.unpack(header)
        source = b""
        while len(source) < size:
            source += os.read(pipe, size - len(source))
        RAN.add("serve")
        if b".answer(" in source:
            asked = ast.parse(source).body[0].value.args[0].value
            channel.send(b"r", json.dumps(answer(json.loads(asked))))
        else:
            exec(compile(source, "<cell>", "exec"), shell.user_ns)
        channel.send(b"d")


def answer(asked):
    found = responder.reply(asked, responder.functions(shell.user_ns))
    if "seen" in found:
        found["seen"]["changed"], found["after"] = [], asked["arguments"]["list"]
    return found


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
"""
# For payloads that look for what is hidden; the needle is split, so that a payload
# never finds itself.
SEARCH = """
import sys

NEEDLE = b"corpus-" + b"needle-93b1"
PYTHON = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
OURS = (sys.prefix, sys.base_prefix, PYTHON, "/proc", "/sys", "/dev")


def files(*roots, most=50_000):
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if os.path.join(folder, f) not in OURS]
            for name in names:
                yield os.path.join(folder, name)
                most -= 1
                if most < 0:
                    return


def holds_needle(path):
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return NEEDLE in file.read(2**22)
    except OSError:
        return False


SYSTEM = "bin boot dev etc lib lib32 lib64 libx32 nix proc sbin sys usr".split()
PLACES = ["/" + name for name in os.listdir("/") if name not in SYSTEM]
PLACES.append(os.getcwd())
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """One submission of the corpus and what should become of it.

    Attributes:
        path: the case's file.
        statuses: the expected status first, then others that would be right too.
        points: expected points per exercise; an upper bound of what may be seen as
            passed where the status is NEEDS_REVIEW.
        believed: points that it earns undeserved; the handbook says so.
        tampering: whether it tries to earn points without a correct answer.
        slow: whether it runs into a limit of time.
        lesson: the name of the lesson that it answers.
        reasons: texts that the reasons for a review must hold.
        submission: makes it, from the solved lesson.
    """

    path: Path
    statuses: tuple[Status, ...]
    points: dict[str, float]
    believed: dict[str, float]
    tampering: bool
    slow: bool
    lesson: str
    reasons: tuple[str, ...]
    submission: Callable[[NotebookNode], object]

    @property
    def name(self) -> str:
        """Folder and name, as in `graded/wrong_answer`."""
        return f"{self.path.parent.name}/{self.path.stem}"


def cases(*folders: str) -> Iterator[Case]:
    """Loads the cases in `folders` (default: all), ordered by name."""
    for folder in folders or FOLDERS:
        for path in sorted((Path(__file__).parent / folder).glob("*.py")):
            module = load(path)
            expected = getattr(module, "STATUS", folder.upper())
            names = (expected, *getattr(module, "ALSO", ()))
            yield Case(
                path=path,
                statuses=tuple(Status(name) for name in names),
                points=module.POINTS,
                believed=getattr(module, "BELIEVED", {}),
                tampering=getattr(module, "TAMPERING", False),
                slow=getattr(module, "SLOW", False),
                lesson=getattr(module, "LESSON", NAME),
                reasons=getattr(module, "REASONS", ()),
                submission=module.submission,
            )


def load(path: Path) -> ModuleType:
    """Imports one case's file."""
    name = f"hostile_case_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(case: Case, lesson: NotebookNode, folder: Path) -> None:
    """Puts a case into `folder`: submitted/<learner>/01_tiny of nbgrader, say."""
    folder.mkdir(parents=True, exist_ok=True)
    content = case.submission(lesson)
    if isinstance(content, NotebookNode):
        content = dumps(content)
    if isinstance(content, bytes):
        content = named(f"{case.lesson}.ipynb", content)
    content(folder)


def named(filename: str, content: bytes | NotebookNode) -> Callable[[Path], None]:
    """Makes a writer that gives a submission another file name."""
    data = content if isinstance(content, bytes) else dumps(content)
    return lambda folder: (folder / filename).write_bytes(data) and None


def solved(lesson: NotebookNode, **sources: str) -> NotebookNode:
    """Answers the released lesson: right, except for the exercises in `sources`."""
    notebook = release(lesson)
    for name, source in (ANSWERS | sources).items():
        cell(notebook, name).source = f"# exercise: {name}\n" + source.strip("\n")
    return notebook


def attack(
    lesson: NotebookNode, witness: str, marks: str, **sources: str
) -> NotebookNode:
    """Answers the exercises in `sources`, and `witness` rightly once they have run.

    Each of their payloads adds one of the `marks` to the set RAN. Checks run in the
    lesson's order: a later exercise that earns its points proves that all have run.
    """
    notebook = release(lesson)
    solution = cell(lesson, witness).source.partition("\n")[2]
    sources[witness] = f"""\
{solution}

right = {witness}


def {witness}(*inputs):
    assert RAN == {{*{marks.split()}}}, f"only {{RAN}} have run"
    return right(*inputs)"""
    for name, source in sources.items():
        cell(notebook, name).source = f"# exercise: {name}\n" + source.strip("\n")
    return notebook


def cell(notebook: NotebookNode, name: str) -> NotebookNode:
    """Finds a cell by its grade id: `double`, `check-double`, `setup`."""
    return next(
        c for c in notebook.cells if nbgrader_metadata(c).get("grade_id") == name
    )


def add_cell(
    notebook: NotebookNode, source: str, before: str | None = "double"
) -> NotebookNode:
    """Adds a learner's code cell before the cell `before`, or at the end for None."""
    place = len(notebook.cells)
    if before is not None:
        place = notebook.cells.index(cell(notebook, before))
    added = nbformat.v4.new_code_cell(source.strip("\n"), id=f"added-{place}")
    notebook.cells.insert(place, added)
    return notebook


def dumps(notebook: NotebookNode) -> bytes:
    """Writes a notebook as JupyterLab does, but without looking whether it is valid."""
    notebook = copy.deepcopy(notebook)
    for c in notebook.get("cells", []):
        if isinstance(c.get("source"), str):
            c["source"] = c["source"].splitlines(keepends=True)
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def forget(notebook: NotebookNode) -> NotebookNode:
    """Loses all metadata and renames all ids, as some front ends do."""
    notebook.metadata = NotebookNode()
    for number, c in enumerate(notebook.cells):
        c.metadata, c.id = NotebookNode(), f"new-{number}"
    return notebook


def guarded(source: str) -> str:
    """Puts the guard before a dangerous payload."""
    return GUARD + source.strip("\n")


def leak(source: str) -> str:
    """Makes an answer to `double` that is right only where `leaked()` finds a thing."""
    answer = "\n\n\ndef double(x):\n    return 2 * x if leaked() else None\n"
    return guarded(SEARCH + source.rstrip("\n") + answer)


def hidden(source: str) -> str:
    """Wraps code in base64, which no reading of the source sees through."""
    text = base64.b64encode(source.encode()).decode()
    return f'import base64\nexec(base64.b64decode("{text}"))\n'


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Makes a zip archive of files by their names, which may be any."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def output(kind: str = "stream", **fields: object) -> NotebookNode:
    """Makes a stored output, as an earlier run may have left it."""
    return nbformat.v4.new_output(kind, **fields)
