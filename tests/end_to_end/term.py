"""An instructor at work in a class, for a test that follows a whole semester.

The lesson has three exercises: double, whose four statements share 2 points; negate, 2
points; halve, a bonus of 1 point. Nine learners are in Canvas, and three in Moodle.
"""

import csv
import re
import zipfile
from pathlib import Path

import nbformat
import several
import tiny
from bs4 import BeautifulSoup
from classes import answered, is_trusted, make_class, printed
from pretended import gradebook_of, page

from grader.__main__ import main

NAME = tiny.NAME
CANVAS = {"101": "ada", "102": "bob", "103": "cleo", "104": "dan", "105": "jan"}
CANVAS |= {"106": "gus", "107": "hal", "108": "ivy", "109": "kim"}  # logins
MOODLE = {"21": "Eve Eaves", "22": "Finn Fox", "23": "Lee Low"}
SECTIONS = "Friday", "Monday"  # of Canvas's learners: even and odd numbers
END = "# %% [markdown]\n# ## The end"
HALVE = '''\
# %% [markdown]
# ### Exercise 1.3: halve
#
# - [half] `halve(x)` returns half of `x`.


# %% exercise="halve" minutes=5 difficulty=1
def halve(x):
    """Returns half of `x`."""
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION


# %% [markdown] hints="halve"
# - Divide `x`.
# - By two.

# %% check="halve"

# %% [markdown] built="halve"
# Halving undoes doubling.

'''
CHECKS = tiny.changed(several.CHECKS, ("import double,", "import double, halve,"))
CHECKS += """

@visible("halve", points=1, essential=["half"], bonus=True)
def examples_of_halve():
    with statement("half"):
        expect_close(observe(halve, 6.0), 3.0)
"""


class Term:
    """What an instructor does in a class: `folder` has it and the files around it."""

    def __init__(self, folder: Path):
        self.folder, self.place = folder, folder / "class"
        changes = several.TEXT, (END, HALVE + END)
        self.lesson = make_class(folder, *changes, checks=CHECKS)

    def run(self, command, *arguments, status=0):
        """Runs `python -m grader COMMAND CLASS ...`; returns the lines it prints."""
        options = ["--workers", "2"] if command in ("grade", "regrade") else []
        options += ["--trusted"] * bool(options and is_trusted())
        words = [command, self.place, *arguments, *options]
        found, lines = printed(main, [*map(str, words)])
        assert found == status, lines.text
        return lines

    def configure(self, settings: str) -> None:
        with open(self.place / "nbgrader_config.py", "a", encoding="utf-8") as file:
            file.write(settings)

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def notebook(self, **answers: str) -> bytes:
        return nbformat.writes(answered(self.lesson, **answers)).encode()

    def mend_check(self, expectation: str, another: str) -> None:
        """Adds an expectation below one in the lesson's visible checks."""
        path = f"coursekit/checks/{NAME}.py"
        self.edit_source(path, (expectation, f"{expectation}\n        {another}"))

    def edit_source(self, file: str, *changes: tuple[str, str]) -> None:
        path = self.place / "source" / NAME / file
        path.write_text(tiny.changed(path.read_text(), *changes))

    def rosters(self, points=4) -> tuple[Path, Path]:
        """Writes Canvas's gradebook and Moodle's grading worksheet of the class."""
        head = "Student,ID,SIS User ID,SIS Login ID,Section,Lesson 1 (77),Final Score"
        lines = [
            f'"{n.title()}, A.",{i},S{i},{n},{SECTIONS[int(i) % 2]},,'
            for i, n in CANVAS.items()
        ]
        possible = f"    Points Possible,,,,,{points}.00,(read only)"
        canvas = [head, possible, *lines, '"Student, Test",199,,5f0c,,,']
        head = "Identifier,Full name,Email address,Status,Grade,Maximum Grade"
        facts = f",,,{points}.00,-,"
        lines = [f"Participant {i},{n},{i}@x.edu{facts}" for i, n in MOODLE.items()]
        moodle = [f"{head},Last modified (grade),Feedback comments", *lines]
        return (
            self.write("gradebook.csv", "\n".join([*canvas, ""])),
            self.write("Grades-JAX-Lesson 1-9.csv", "\n".join([*moodle, ""])),
        )

    def scores(self) -> dict[str, float | None]:
        """Reads the exported scores; each learner's page must show the same one."""
        self.run("export")
        found = {}
        for row in table(self.place / "grading" / "grades.csv"):
            if row["status"] == "not submitted":
                continue
            student, score = row["student"], row["score"]
            found[student] = float(score) if score else None
            if row["status"].startswith("GRADED"):
                head = rf" ([\d.]+) of {row['max_score']}(?: and ([\d.]+) bonus)? point"
                own, bonus = re.search(head, self.words(student)).groups()
                assert float(own) + float(bonus or 0) == float(score)
        return found

    def penalties(self) -> dict[str, float]:
        """Reads the penalties for late work in nbgrader's gradebook."""
        with gradebook_of(self.folder) as book:
            found = book.assignment_submissions(NAME)
            late = {one.student.id: one.late_submission_penalty for one in found}
        return {student: points for student, points in late.items() if points}

    def words(self, student: str) -> str:
        """Reads the text of a learner's page."""
        made = BeautifulSoup(page(self.folder, student), "html.parser")
        return " ".join(made.get_text(" ").split())

    def returned(self, kind: str, status=1) -> dict[str, str]:
        """Returns the files in an archive of feedback."""
        self.run("return", "01", "--format", kind, status=status)
        path = self.place / "grading" / f"feedback-{NAME}-{kind}.zip"
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name).decode() for name in archive.namelist()}


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [*csv.DictReader(file)]


def counts(lines) -> dict[str, int]:
    """Reads how many submissions have each status."""
    found = re.findall(r"(?m)^([A-Z_]+) +([1-9]\d*)$", lines.text)
    return {status: int(number) for status, number in found}
