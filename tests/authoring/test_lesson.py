"""A lesson's notebook holds what the build generates around its source's text."""

import ast
import re

import nbformat
import pytest
import tiny
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3
from nbgrader.preprocessors import CheckCellMetadata

from coursekit.setup import version_of
from grader.authoring.check_source import checks_path, read_checks, visible_source
from grader.authoring.lesson import read_lesson, repository_address
from grader.lessons import coursekit
from grader.lessons.release import lesson_paths, points_for

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


def test_setup_names_its_lesson_and_is_else_the_same_in_every_lesson(lesson, tmp_path):
    path = tiny.write_course(tmp_path / "course")
    other = path.with_name("02_other.py")
    other.write_text(tiny.SOURCE.replace("double", "twice"))
    checks = tiny.CHECKS.replace("double", "twice")
    (path.parent / "checks" / other.name).write_text(checks)
    setup = cell_of(read_lesson(other, tiny.REPOSITORY), "setup").source
    assert 'with_devices(8, lesson="02_other")' in setup
    ours = cell_of(lesson, "setup").source
    assert setup == ours.replace(tiny.NAME, "02_other")


NAMES = "from coursekit.notebook import COURSE_NAMES\n"


def imported_by(tmp_path, *changes):
    made = tiny.lesson(tmp_path / "course", *changes, setup=NAMES)
    return cell_of(made, "setup").source.removeprefix("from coursekit.notebook import ")


def test_setup_imports_by_name_what_the_cells_use(tmp_path):
    always = "check, example, observe, scorecard"
    assert imported_by(tmp_path / "one", (DEMO, DEMO)) == always
    shows = 'draw_array(np.arange(3))\nchecklist({"It runs": "double"})\n'
    found = imported_by(tmp_path / "two", (DEMO, shows))
    assert found == "check, checklist, draw_array, example, observe, scorecard"


def test_setup_imports_nothing_that_only_a_text_or_another_package_names(tmp_path):
    shows = '# draw_array\ntext = "draw_array"\nnp.collectives(shard_map)\n'
    found = imported_by(tmp_path, (DEMO, shows), ("# A demonstration.", "# draw_array"))
    assert found == "check, example, observe, scorecard"


def test_setup_fetches_the_package_from_the_repository(lesson):
    setup = cell_of(lesson, "setup").source
    address = f"{tiny.REPOSITORY}/archive/main.zip"
    assert f'URL, FOLDER = "{address}", "tiny-course-main/lessons"\n' in setup
    assert f'VERSION = "{version_of(coursekit.read())}"\n' in setup


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_setup_of_our_lessons_fetches_from_our_repository(path):
    address = repository_address()
    setup = cell_of(read_lesson(path, address), "setup").source
    version = version_of(coursekit.read())
    archive = f'"{address}/archive/main.zip", "course.zip"'
    name = address.rpartition("/")[2]
    assert f'urlretrieve({archive})[0] + "/{name}-main/lessons"' in setup
    assert f'made_for="{version}"' in setup
    assert f'with_devices(8, lesson="{path.stem}"' in setup
    assert "COURSE_" not in setup and "COURSEKIT_" not in setup


def test_a_release_opens_and_fetches_its_own_tag(tmp_path):
    path = tiny.write_course(tmp_path / "course")
    settings = path.parents[1] / "pyproject.toml"
    settings.write_text(settings.read_text() + 'revision = "v1.2"\n')
    setup = cell_of(read_lesson(path, tiny.REPOSITORY), "setup").source
    assert f'"{tiny.REPOSITORY}/archive/v1.2.zip", "tiny-course-1.2/lessons"' in setup


def test_repository_address_ends_without_a_slash(tmp_path):
    path = tiny.write_course(tmp_path / "course").parents[1] / "pyproject.toml"
    path.write_text('[tool.course]\nrepository = "https://example.org/ada/x/"\n')
    assert repository_address(path.parent) == "https://example.org/ada/x"


def test_first_cell_has_the_badge_that_opens_the_lesson_in_colab(lesson):
    page = "github/ada/tiny-course/blob/main/lessons/01_tiny.ipynb"
    badge = f"](https://colab.research.google.com/{page})"
    assert badge in lesson.cells[0].source
    assert all("COLAB_BADGE" not in cell.source for cell in lesson.cells)


def test_check_without_hidden_cases_is_one_line(lesson):
    assert cell_of(lesson, "check-negate").source == 'check("negate")'


def test_instructors_check_holds_hidden_cases_and_solution_above_its_line(lesson):
    source = cell_of(lesson, "check-double").source
    assert source.splitlines()[0] == "### BEGIN HIDDEN TESTS"
    assert source.splitlines()[-2:] == ["### END HIDDEN TESTS", 'check("double")']
    hidden = tiny.CHECKS[tiny.CHECKS.index('@hidden("double")') :].split("\n\n\n")[0]
    assert hidden in source
    solution = cell_of(lesson, "double").source.removeprefix("# exercise: double\n")
    plain = re.sub(r"    ### (BEGIN|END) SOLUTION\n?", "", solution)
    assert f"solution('''\n{plain}\n''')" in source


def test_solution_in_a_check_keeps_its_text(tmp_path):
    was = "    secret = 2\n"
    strings = 'text = r"\\d\\n", "\\n", """two\n\nlines"""'
    more = f"{was}    {strings}\n    other = '''\\tthree'''\n"
    made = tiny.lesson(tmp_path / "course", (was, more))
    kept = []
    solution = {"solution": kept.append, "hidden": lambda name: lambda cases: cases}
    source = cell_of(made, "check-double").source.split("\n", 2)[2]
    exec(source.rpartition("\n")[0], solution)
    assert [ast.dump(ast.parse(text)) for text in kept] == [
        ast.dump(ast.parse(cell_of(made, "double").source))
    ]


def test_checks_that_learners_see_go_with_the_notebook_for_those_who_grade(lesson):
    assert lesson.metadata["checks"] == visible_source(tiny.CHECKS)


def test_exercise_starts_with_a_comment_that_names_it(lesson):
    source = cell_of(lesson, "double").source
    assert source.startswith("# exercise: double\ndef double(x):\n")


@pytest.mark.parametrize(
    "exercise, facts",
    [
        ("1.1: double", "About 5 minutes. Difficulty 1 of 3. 1 point."),
        ("1.2: negate", "About 10 minutes. Difficulty 3 of 3. 2 points."),
    ],
)
def test_facts_of_an_exercise_stand_below_its_heading(lesson, exercise, facts):
    text = text_of(lesson, f"### Exercise {exercise}")
    assert text.startswith(f"### Exercise {exercise}\n\n*{facts}*\n\n| ")


def test_hints_are_folded_one_by_one(lesson):
    assert text_of(lesson, "Multiply") == (
        "<details><summary>Hint 1</summary>\n\nMultiply `x`.\n\n</details>\n"
        "<details><summary>Hint 2</summary>\n\nBy two, as in\n`2 * x`.\n\n</details>"
    )


def test_three_hints_are_numbered(lesson):
    numbers = re.findall(r"<summary>Hint (\d)</summary>", text_of(lesson, "From zero"))
    assert numbers == ["1", "2", "3"]


def test_statements_are_a_table_of_names_sentences_and_points(tmp_path):
    twice = "# - [twice] `double(x)`"
    more = (twice, f"# Compute.\n#\n# - [of any x] Text,\n#   too.\n{twice}")
    essential = 'essential=["twice"]'
    mark = (essential, f'{essential}, others=["of any x", "quick"]')
    quick = "# - [quick] **Quick.** All is\n#   quick. (In a cell of its own.)"
    quick = ("# A demonstration.", quick)
    own = "        expect_close(observe(double, 3), 6)\n"
    proof = (own, f'{own}    with statement("of any x", "quick"):\n        pass\n')
    checks = tiny.changed(tiny.CHECKS, mark, proof)
    made = tiny.lesson(tmp_path / "course", more, quick, checks=checks)
    text = text_of(made, "### Exercise 1.1")
    assert text.endswith(
        "Compute.\n\n| | What is checked | Points |\n|---|---|---|\n"
        "| **twice** | `double(x)` returns twice `x`. | essential |\n"
        "| of any x | Text, too. | 0.25 |\n"
        "| quick | All is quick. | 0.25 |"
    )
    assert text_of(made, "In a cell").startswith("- **Quick.** All is")


def test_what_was_built_is_folded(lesson):
    assert text_of(lesson, "a shift") == (
        "<details><summary>What you have built</summary>\n\n"
        "Doubling is a shift.\n\n</details>"
    )


def test_scorecard_is_one_line(lesson):
    assert cell_of(lesson, "scorecard").source == "scorecard()"


def test_points_of_a_bonus_are_named_so_and_count_in_no_maximum(tmp_path):
    mark = 'points=2, essential=["negative"]'
    checks = tiny.changed(tiny.CHECKS, (mark, f"{mark}, bonus=True"))
    made = tiny.lesson(tmp_path / "course", checks=checks)
    assert "Difficulty 3 of 3. 2 bonus points.*" in text_of(made, "### Exercise 1.2")
    found = cell_of(made, "check-negate")
    assert (found.metadata.nbgrader["points"], points_for(found)) == (0, 2)
    assert points_for(cell_of(made, "check-double")) == 1
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


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_each_row_of_a_card_is_in_its_exercises_table_with_its_points(path):
    made = read_lesson(path, tiny.REPOSITORY)
    for name, check in read_checks(checks_path(path)).items():
        [text] = [
            cell.source
            for cell in made.cells
            if re.match(rf"### Exercise [\d.]+: {name}\b", cell.source)
        ]
        rows = re.findall(r"(?m)^\| \**([a-z0-9][^|*]*)\** \|.*\| (.*) \|$", text)
        each = f"{round(check.points / 2 / max(1, len(check.others)), 2):g}"
        assert rows == [
            *((one, "essential") for one in check.essential),
            *((one, each) for one in check.others),
        ]


@pytest.mark.parametrize("path", lesson_paths(), ids=lambda path: path.stem)
def test_no_cause_is_shown_whatever_was_observed(path):
    tree = ast.parse(checks_path(path).read_text(encoding="utf-8"))
    dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    tests = [one for node in dicts for one in node.values]
    assert "lambda _: True" not in map(ast.unparse, tests)
