"""Each lesson keeps to the limits that the course promises its learners."""

import html
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from coursekit.environment import FAST_COMPILE_FLAGS

ROOT = Path(__file__).resolve().parents[2]
FOLDED = re.compile(r"<details><summary>.*In words.*</summary>(.*)</details>")
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.ipynb"))
EVERY_FILE = sorted((ROOT / "lessons").glob("**/[0-9][0-9]_*.ipynb"))
EIGHT = "--xla_force_host_platform_device_count=8"
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
every_file = pytest.mark.parametrize(
    "path", EVERY_FILE, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def cells(path, kind):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def test_there_is_a_lesson():
    assert LESSONS


@every_lesson
def test_released_file_is_small(path):
    assert path.stat().st_size < 200_000


def core(path, kind):
    """The cells above the line "Going further"."""
    notebook = nbformat.read(path, as_version=4)
    is_core = itertools.takewhile(
        lambda cell: "## Going further" not in cell.source, notebook.cells
    )
    return [cell for cell in is_core if cell.cell_type == kind]


@every_lesson
def test_lesson_has_a_title_a_badge_three_questions_and_a_recap(path):
    prose = "\n".join(cell.source for cell in cells(path, "markdown"))
    prose = re.sub(r"(?ms)^```.*?^```", "", prose)  # an example's comments
    assert len(re.findall(r"(?m)^# ", prose)) == 1
    assert f"lessons/{path.name})" in prose
    assert "**Common mistake" in prose
    assert re.search(r"(?m)^## Recap$", prose)
    assert len(re.findall(r"(?m)^\*\*[123]\. ", prose)) == 3


@every_file
def test_first_cell_is_the_set_up_and_short_and_shows_the_flag(path):
    first = cells(path, "code")[0]
    assert first.id == "setup"
    assert len(first.source.splitlines()) <= 15
    [line] = [line for line in first.source.splitlines() if EIGHT in line]
    assert line.startswith('os.environ["XLA_FLAGS"] = ')
    # Its lesson's name and what this uses of the package are a notebook's own.
    names = re.compile(r'(?<=lesson=")\w+|(?<=coursekit\.notebook import ).*')
    assert f'lesson="{path.stem}"' in first.source
    others = cells(LESSONS[0], "code")[0].source
    assert names.sub("", first.source) == names.sub("", others)


@pytest.mark.parametrize("folder", ["lessons", "lessons/ko", "solutions"])
def test_set_up_cell_finds_its_modules_agrees_with_them_and_keeps_flags(folder):
    cell = cells(ROOT / folder / LESSONS[0].name, "code")[0]
    ours = ("JAX_", "XLA_", "NPROC", "PJRT_NPROC", "PYTHONPATH", "COURSE_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    env |= {"XLA_FLAGS": "--xla_cpu_enable_fast_math=false", "COURSE_LANGUAGE": "en"}
    program = f"{cell.source}\nprint(os.environ['XLA_FLAGS'])"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / folder,
        env=env,
        capture_output=True,
        text=True,
    )
    assert run.stdout.splitlines() == [
        "Ready: 8 simulated CPU devices.",
        " ".join(["--xla_cpu_enable_fast_math=false", *FAST_COMPILE_FLAGS, EIGHT]),
    ], run.stderr


@every_lesson
def test_released_file_holds_no_solution_and_no_hidden_test(path):
    text = path.read_text(encoding="utf-8")
    assert "SOLUTION" not in text
    assert "HIDDEN TESTS" not in text
    assert not any(
        cell["outputs"] for cell in json.loads(text)["cells"] if "outputs" in cell
    )


@every_lesson
def test_exercise_minutes_fit_into_the_lesson(path):
    """Reading, predicting and running take the rest of a lesson's time."""
    prose = "\n".join(cell.source for cell in core(path, "markdown"))
    assert "pause" in prose
    minutes = [*map(int, re.findall(r"\*About (\d+) minutes\.", prose))]
    [whole] = re.findall(r"about\s+(\d+)\s+minutes", prose)
    several = re.findall(r"minutes\s+in\s+(\w+)\s+sittings\s+of\s+(\d+)", prose)
    count, each = several[0] if several else ("one", whole)
    assert int(whole) == {"one": 1, "two": 2, "three": 3}[count] * int(each)
    assert 60 <= int(each) <= 90
    assert int(whole) / 2 <= sum(minutes) < int(whole)


@every_lesson
def test_every_picture_has_words_of_its_own_and_they_follow_it(path):
    found = {}
    for cell in cells(ROOT / "solutions" / path.name, "code"):
        for shown, after in itertools.pairwise([*cell.outputs, {}]):
            if "image/png" in shown.get("data", {}):
                words = shown.metadata["image/png"]["alt"]
                assert 40 <= len(words) <= 420
                [folded] = FOLDED.findall(after["data"]["text/html"])
                assert html.unescape(re.sub("</?small>", "", folded)) == words
                found[shown.data["image/png"]] = words
    assert len(found) == len(set(found.values())) >= 4


@every_lesson
def test_each_function_that_a_learner_writes_is_used_on_the_page(path):
    code = cells(path, "code")
    written = {c.id for c in code if c.metadata.get("nbgrader", {}).get("solution")}
    used = re.findall(r"@needs\((.*?)\)", "\n".join(cell.source for cell in code))
    assert written == {*re.findall(r'"(\w+)"', " ".join(used))}


def code_lines(cells):
    """Counts lines of code: no blank ones, no comments."""
    lines = (line.strip() for cell in cells for line in cell.source.splitlines())
    return sum(line != "" and not line.startswith("#") for line in lines)


@every_file
def test_each_exercise_has_one_check_of_one_line_and_machinery_takes_no_room(path):
    code = cells(path, "code")
    marked = [(cell, cell.metadata.get("nbgrader", {})) for cell in code]
    exercises = [cell.id for cell, marks in marked if marks.get("solution")]
    checks = [cell for cell, marks in marked if marks.get("grade")]
    assert exercises
    assert [one.source for one in checks] == [f'check("{name}")' for name in exercises]
    assert [one.id for one in checks] == [f"check-{name}" for name in exercises]
    for cell in code:
        assert not re.search(r"\bexpect_|import \*|statement\(", cell.source), cell.id
        assert (
            "helper" not in cell.id and "jupyter" not in cell.metadata
        )  # none is folded
    machinery = [*checks, *(one for one in code if one.id in ("setup", "scorecard"))]
    assert len(machinery) == len(checks) + 2
    imports = 3  # of JAX and NumPy, which the lesson's own code uses
    assert code_lines(machinery) - imports <= 0.08 * code_lines(code)


@every_file
def test_no_title_that_unfolds_shows_markdown(path):
    """A browser shows what is inside HTML tags as it is."""
    for cell in cells(path, "markdown"):
        for title in re.findall(r"<summary>(.*)</summary>", cell.source):
            assert not re.search(r"`|\*\w|\w\*", title)
