"""A lesson's notebook holds what the build generates around its source's text."""

import ast
import re

import nbformat
import pytest
import tiny
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3
from nbgrader.preprocessors import CheckCellMetadata

from grader.authoring import coursekit
from grader.authoring.lesson import read_lesson, repository_address
from grader.authoring.notebook import lesson_paths, points_for

DEMO = 'print("a demonstration")\n'


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    # Cells of the same text must get different ids all the same.
    twice = f"{DEMO}\n# %%\n{DEMO}\n# %% [markdown]\n# A demonstration.\n"
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course", (DEMO, twice))


def cell_of(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def text_of(notebook, part):
    [source] = [cell.source for cell in notebook.cells if part in cell.source]
    return source


def test_setup_is_the_same_in_every_lesson(lesson, tmp_path):
    path = tiny.write_course(tmp_path / "course")
    other = path.with_name("02_other.py")
    other.write_text(tiny.SOURCE.replace("double", "twice"))
    setup = cell_of(read_lesson(other, tiny.REPOSITORY), "setup").source
    assert setup == cell_of(lesson, "setup").source


def test_setup_fetches_the_package_from_the_repository(lesson):
    setup = cell_of(lesson, "setup").source
    version = coursekit.version(coursekit.read())
    name = f"coursekit-{version}.zip"
    address = f"{tiny.REPOSITORY}/raw/main/docs/colab/{name}"
    assert f'URL, NAME, VERSION = "{address}", "{name}", "{version}"' in setup


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_setup_of_our_lessons_fetches_from_our_repository(path):
    address = repository_address()
    setup = cell_of(read_lesson(path, address), "setup").source
    version = coursekit.version(coursekit.read())
    name = f"coursekit-{version}.zip"
    assert f'urlretrieve("{address}/raw/main/docs/colab/{name}", "{name}")' in setup
    assert f'made_for="{version}"' in setup
    assert "COURSEKIT_" not in setup


def test_repository_address_ends_without_a_slash(tmp_path):
    path = tiny.write_course(tmp_path / "course").parents[1] / "pyproject.toml"
    path.write_text('[tool.course]\nrepository = "https://example.org/ada/x/"\n')
    assert repository_address(path.parent) == "https://example.org/ada/x"


def test_first_cell_has_the_badge_that_opens_the_lesson_in_colab(lesson):
    page = "github/ada/tiny-course/blob/main/lessons/01_tiny.ipynb"
    badge = f"](https://colab.research.google.com/{page})"
    assert badge in lesson.cells[0].source
    assert all("COLAB_BADGE" not in cell.source for cell in lesson.cells)


@pytest.mark.parametrize(
    "name, points, states", [("double", 1, "twice"), ("negate", 2, "negative")]
)
def test_check_is_a_block_that_knows_its_points_and_statements(
    lesson, name, points, states
):
    source = cell_of(lesson, f"check-{name}").source
    header, first, second, *_ = source.splitlines()
    assert header == f'with check("{name}", points={points}, statements=["{states}"]):'
    assert first == f'    statement("{states}")'
    assert second.startswith(f"    expect_close(observe({name}, 3), ")


def test_many_statements_stand_one_a_line(tmp_path):
    line = "# [twice] `double(x)` returns twice `x`.\n"
    more = f"{line}#\n# - [{'long ' * 8}one] Text.\n# - [short] Text.\n"
    prove = 'statement("twice")'
    proofs = prove.replace(")", f', "{"long " * 8}one", "short")')
    lesson = tiny.lesson(tmp_path / "course", (line, more), (prove, proofs))
    source = cell_of(lesson, "check-double").source
    assert f'\n        "{"long " * 8}one",\n        "short",\n    ],\n):\n' in source
    assert compile(source, "check", "exec")


def test_check_keeps_the_text_of_its_strings(tmp_path):
    line = "expect_close(observe(negate, 3), -3)\n"
    more = line + 'text = """\none\n  two"""\n'
    source = cell_of(tiny.lesson(tmp_path / "course", (line, more)), "check-negate")
    [block] = ast.parse(source.source).body
    assert ast.unparse(block.body[1:]) == ast.unparse(ast.parse(more).body)


def test_exercise_starts_with_a_comment_that_names_it(lesson):
    source = cell_of(lesson, "double").source
    assert source.startswith("# exercise: double\ndef double(x):\n")


@pytest.mark.parametrize(
    "exercise, facts",
    [
        ("1.1: double", "About 3 minutes. Difficulty 1 of 3. 1 point."),
        ("1.2: negate", "About 12 minutes. Difficulty 3 of 3. 2 points."),
    ],
)
def test_facts_of_an_exercise_stand_below_its_heading(lesson, exercise, facts):
    text = text_of(lesson, f"### Exercise {exercise}")
    assert text.startswith(f"### Exercise {exercise}\n\n*{facts}*\n\n`")


def test_hints_are_folded_one_by_one(lesson):
    assert text_of(lesson, "Multiply") == (
        "<details><summary>Hint 1</summary>\n\nMultiply `x`.\n\n</details>\n"
        "<details><summary>Hint 2</summary>\n\nBy two, as in\n`2 * x`.\n\n</details>"
    )


def test_three_hints_are_numbered(lesson):
    numbers = re.findall(r"<summary>Hint (\d)</summary>", text_of(lesson, "From zero"))
    assert numbers == ["1", "2", "3"]


def test_scorecard_lists_all_points(lesson):
    source = cell_of(lesson, "scorecard").source
    assert source == "scorecard(\n    double=1,\n    negate=2,\n)"


def test_points_of_a_bonus_are_named_so_and_count_in_no_maximum(tmp_path):
    mark = '# %% check="negate" points=2'
    made = tiny.lesson(tmp_path / "course", (mark, f"{mark} bonus=true"))
    assert "Difficulty 3 of 3. 2 bonus points.*" in text_of(made, "### Exercise 1.2")
    found = cell_of(made, "check-negate")
    assert 'check("negate", points=2,' in found.source
    assert (found.metadata.nbgrader["points"], points_for(found)) == (0, 2)
    assert points_for(cell_of(made, "check-double")) == 1
    card = cell_of(made, "scorecard").source
    assert card == "scorecard(\n    double=1,\n    negate=0,\n)"
    CheckCellMetadata().preprocess(made, {})
    MetadataValidatorV3().validate_nb(made)


@pytest.mark.parametrize(
    "cell_id, grade, solution, locked",
    [
        ("check-negate", True, False, True),
        ("negate", False, True, False),
        ("setup", False, False, True),
        ("scorecard", False, False, True),
    ],
)
def test_nbgrader_knows_the_role_of_a_cell(lesson, cell_id, grade, solution, locked):
    found = cell_of(lesson, cell_id).metadata.nbgrader
    assert (found.grade, found.solution, found.locked) == (grade, solution, locked)


def test_nbgrader_accepts_the_metadata(lesson):
    CheckCellMetadata().preprocess(lesson, {})
    MetadataValidatorV3().validate_nb(lesson)


def test_helpers_are_folded_and_say_that_they_ask_for_nothing(tmp_path):
    check = '# %% check="double" points=1'
    helpers = f'# %% helpers="double"\ndef twice(x):\n    return double(x)\n\n\n{check}'
    source = tiny.SOURCE.replace(check, helpers)
    path = tiny.write_course(tmp_path / "course", source)
    cell = cell_of(read_lesson(path, tiny.REPOSITORY), "helpers-double")
    assert cell.metadata.jupyter.source_hidden
    assert cell.source.startswith("# For the check of double: nothing to do here.\ndef")


def test_a_failed_check_does_not_stop_run_all(lesson):
    tags = {cell.id: cell.metadata.get("tags", []) for cell in lesson.cells}
    stoppable = [cell_id for cell_id, tag in tags.items() if "raises-exception" in tag]
    assert stoppable == ["check-double", "check-negate"]


def test_notebook_is_valid(lesson):
    nbformat.validate(lesson)


def test_cell_ids_are_valid_and_differ(lesson):
    ids = [cell.id for cell in lesson.cells]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell_id) for cell_id in ids)


def test_reading_twice_gives_the_same_notebook(tmp_path):
    path = tiny.write_course(tmp_path / "course")
    assert read_lesson(path, tiny.REPOSITORY) == read_lesson(path, tiny.REPOSITORY)


def test_code_cells_parse(lesson):
    sources = [cell.source for cell in lesson.cells if cell.cell_type == "code"]
    assert len(sources) == 8
    assert all(ast.parse(source).body for source in sources)
