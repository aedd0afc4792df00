"""The documentation's figures, commands, paths and messages are those of the code."""

import itertools
import os
import re
import shlex
import subprocess

import jax
import nbformat
import pytest

from coursekit.environment import FAST_COMPILE_FLAGS
from coursekit.setup import PYTHONS
from grader import ROOT
from grader.__main__ import parse
from grader.classroom import spreadsheet
from grader.containment.limits import Limits
from grader.judging import (
    exported_program,
    program_process,
    tampering,
    trial,
)
from grader.lessons.release import checks, nbgrader_metadata
from grader.results import Status
from grader.submissions import archives, read_submission
from grader.workers import executor
from tools import commands_page

MIB, GIB = 2**20, 2**30
READMES = [ROOT / "README.md", ROOT / "README.ko.md"]
READMES += [ROOT / "lessons" / "README.md", ROOT / "lessons" / "ko" / "README.md"]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
LIMITS_PAGE = ROOT / "docs" / "handbook" / "limits.md"
SCALE_PAGE = ROOT / "docs" / "grading-at-scale.md"
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*READMES, ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *DOCS]
}
# Each row of the page's tables, and its figures from the code, in the page's order.
LIMITS = Limits()
FIGURES = {
    "one cell, or one call of a function": [LIMITS.wall_s],
    "all of a submission, with all fresh starts": [LIMITS.total_s],
    "CPU time of all processes together": [LIMITS.cpu_s, LIMITS.total_cpu_s],
    "memory, all processes together": [LIMITS.memory_mib],
    "address space of any single process": [LIMITS.address_mib],
    "processes": [LIMITS.busy],
    "processes and threads": [LIMITS.processes],
    "open files of any single process": [LIMITS.open_files],
    "the private `/tmp`, and any file": [LIMITS.disk_mib, LIMITS.files],
    "answers and errors, before the process is stopped": [LIMITS.output_mib],
    "memory of a program that the judge runs, by the compiler's account": [
        exported_program.MAX_MEMORY_MIB
    ],
    "memory of the process in which it runs and is compiled": [
        program_process.MAX_DATA_MIB
    ],
    "processes one after another (a new one after a crash or a timeout)": [
        trial.MAX_SESSIONS
    ],
    "a notebook": [
        read_submission.MAX_BYTES / MIB,
        read_submission.MAX_CELLS,
        read_submission.MAX_CELL,
        read_submission.MAX_TEXT,
    ],
    "code that is searched for signs of tampering": [tampering.MAX_SOURCE],
    "a file in a download": [archives.MAX_FILE / MIB],
    "what is unpacked from a learner's archive; from an LMS's": [
        archives.MAX_INNER / GIB,
        archives.MAX_TOTAL / GIB,
    ],
    "entries of an archive; archives in archives": [
        archives.MAX_ENTRIES,
        2,  # which is how files_in is written
    ],
    "a cell of an export": [spreadsheet.MAX_CELL],
    "free memory that each submission in progress needs": [executor.WORKER_MIB],
    "submissions of one lesson for which our own solution is compiled first": [
        executor.MIN_JOBS_TO_PRECOMPILE
    ],
}
NO_CONSTANT = {"a feedback page", "a message"}  # literals in grader/pages, judging
NO_FIGURE = {"network", "workers, without `--workers`"}
PYTHON_PAGES = ["README.md", "docs/index.md", "docs/handbook/setup.md"]
PATH = re.compile(
    r"(?<![\w./-])((?:grader|lessons|solutions|tests|tools|docs)/[\w./-]*\w/?)(?=[`\s),]|$)"
)
PLACEHOLDER = re.compile("NN_name|VERSION|/xx/")
COMMAND = re.compile(r"python -m grader(?= |`|$)([^\n`#]*)", re.M)


def rows(page):
    """Reads the page's tables: {first column: second column}."""
    found = re.findall(r"(?m)^\| ([^|]+?) \| ([^|]+?) \|$", page.read_text())
    return {name: cell for name, cell in found if name != "what"}


def numbers(text):
    return [int(n.replace(",", "")) for n in re.findall(r"\d(?:[\d,]*\d)?", text)]


def test_the_limits_page_states_each_limit_and_no_other():
    assert rows(LIMITS_PAGE).keys() == FIGURES.keys() | NO_CONSTANT | NO_FIGURE


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_that_of_the_code(name):
    assert numbers(rows(LIMITS_PAGE)[name]) == FIGURES[name]


def test_the_command_lines_default_is_the_limit():
    assert parse(["grade", "class"]).seconds == LIMITS.wall_s
    assert parse(["regrade", "class"]).seconds == LIMITS.wall_s


def test_limits_are_stated_once():
    units = r"[\d,]+ (?:seconds|MiB|GiB|characters|cells|MB)\b"
    stated = set(re.findall(units, " ".join(rows(LIMITS_PAGE).values())))
    assert {"60 seconds", "3,000 MiB", "1,200 MiB"} <= stated
    repeated = [
        (name, figure)
        for name, text in TEXTS.items()
        for figure in stated
        if name != str(LIMITS_PAGE.relative_to(ROOT))
        and re.search(rf"(?<![\d,.]){figure}", " ".join(text.split()))
    ]
    assert repeated == []


def test_pods_and_slurm_jobs_get_the_memory_that_a_worker_needs():
    page = SCALE_PAGE.read_text()
    [request] = re.findall(r'requests: \{cpu: "1", memory: (\d+)Gi\}', page)
    [limit] = re.findall(r"limits: \{memory: (\d+)Gi\}", page)
    [processes] = re.findall(r"processes=(\d+)", page)
    [memory] = re.findall(r'memory="(\d+)GB"', page)
    assert int(request) * GIB >= executor.WORKER_MIB * MIB
    assert int(limit) * GIB >= LIMITS.memory_mib * MIB
    assert int(memory) * 10**9 >= int(processes) * executor.WORKER_MIB * MIB


def test_the_scale_page_states_xlas_options():
    page = SCALE_PAGE.read_text()
    for flag in FAST_COMPILE_FLAGS:
        assert flag.removeprefix("--xla_backend_extra_options=") in page


def test_the_handbook_lists_every_status():
    page = (ROOT / "docs" / "handbook" / "grade.md").read_text()
    assert re.findall(r"(?m)^\| ([A-Z_]{5,}) \|", page) == [s.name for s in Status]


@pytest.mark.parametrize("name", PYTHON_PAGES)
def test_supported_pythons_are_those_that_the_course_accepts(name):
    (major, first), (_, last) = PYTHONS
    named = f"Python {major}.{first} to {major}.{last}"
    assert named in " ".join(TEXTS[name].split())


@pytest.mark.parametrize("name", TEXTS)
def test_each_path_that_is_named_exists(name):
    named = [p for p in PATH.findall(TEXTS[name]) if not PLACEHOLDER.search(p)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def addresses():
    """Collects what the pages and the lessons link to."""
    sources = [*(ROOT / "solutions").glob("*.py"), ROOT / "CITATION.cff"]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    joined = [re.sub(r"\n# *", "\n", text) for text in texts]
    found = re.findall(
        r"https?://[^\s)>\"'`|{}]+", "\n".join([*TEXTS.values(), *joined])
    )
    named = {address.rstrip(".,;:").partition("#")[0] for address in found}
    return {address for address in named if "example.org" not in address}


def test_each_address_is_listed_once_somebody_has_looked_at_it():
    listed = (ROOT / "tests" / "addresses.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(addresses()) == listed


def test_no_page_of_jax_is_linked_that_has_moved():
    moved = (
        r"docs\.jax\.dev/en/latest/(notebooks/|multi_process|sharded-|parallel|fault)"
    )
    assert [one for one in addresses() if re.search(moved, one)] == []


@pytest.mark.parametrize("name", TEXTS)
def test_each_link_to_a_file_leads_to_one(name):
    folder = (ROOT / name).parent
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", TEXTS[name])
    made = {"cheats.md"}  # by the website's build, as the lessons' pages are
    made |= {f"lessons/{path.name}" for path in (ROOT / "lessons").glob("*.ipynb")}
    lost = {link for link in links if not (folder / link).exists()}
    assert lost <= (made if name.startswith("docs/") else set())


@pytest.mark.slow
def test_the_plan_of_the_page_is_the_one_that_its_program_prints():
    page = TEXTS["docs/planning.md"]
    program, _, printed, *_ = re.findall(r"(?s)(?<=```)(?:python)?\n(.*?)```", page)[:4]
    names = {}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        exec(program, names)
    said = str(names["found"]).replace("<string>", "step.py")
    # Seconds depend on the order that this version of the compiler chooses.
    assert said.splitlines()[:7] == printed.splitlines()[:7]


COMMANDS = [
    pytest.param(words, id=f"{name}:{words.strip()}")
    for name, text in TEXTS.items()
    for words in COMMAND.findall(text)
]


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_is_one_that_the_grader_takes(words):
    arguments = shlex.split(words.partition(" ... ")[0])
    assert parse(arguments).run


@pytest.mark.parametrize(
    "message",
    [
        "user namespaces are refused",
        "every user must be able to read",
        "left alone: ",
        "The code replaces ",
        "The code changes how cells are run",
        "The code uses ",
        "Not installed where this was graded",
        "Changed cells of the lesson",
        "Cells that did not end, or ended their process",
        "again was left out",
        "failed by itself",
        "venv module is missing",
    ],
)
def test_each_message_that_is_quoted_is_one_of_the_code(message):
    assert any(message.strip() in text for text in TEXTS.values())
    sources = itertools.chain((ROOT / "grader").rglob("*.py"), [ROOT / "Makefile"])
    assert any(message in path.read_text(encoding="utf-8") for path in sources)


def test_the_handbook_knows_what_each_lesson_is_worth():
    page = " ".join((ROOT / "docs" / "handbook" / "release.md").read_text().split())
    [listed] = re.findall(r"The lessons are worth ([\d, and]+) points", page)
    worth = []
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        cells = checks(nbformat.read(path, 4)).values()
        worth.append(sum(nbgrader_metadata(cell)["points"] for cell in cells))
    assert [int(number) for number in re.findall(r"\d+", listed)] == worth


def test_the_page_of_commands_is_what_help_says():
    write = f"{commands_page.PAGE} is old: run `python -m tools.commands_page`."
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.page(), write
    assert "|  |" not in commands_page.page()  # each has a meaning


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_a_new_version_is_taken_and_answers_stay(tmp_path, page):
    """By the README's own commands, where both sides changed the same notebook."""
    text = (ROOT / page).read_text(encoding="utf-8")
    [(first, second)] = re.findall(
        r"`(git stash [^`]*)`[^`\n]*`(git checkout [^`]*)`", text
    )
    config = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    course, mine = tmp_path / "course", tmp_path / "mine"

    def git(folder, *words):
        subprocess.run(["git", *config, *words], cwd=folder, check=True)

    def save(folder, text):
        for name in ("01_pmap_spmd", "02_collectives"):
            path = folder / "lessons" / f"{name}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text} {name}", encoding="utf-8")

    save(course, "old")
    git(course, "init", "-q")
    git(course, "add", ".")
    git(course, "commit", "-qm", "old")
    git(tmp_path, "clone", "-q", str(course), str(mine))
    save(course, "new")
    git(course, "commit", "-qam", "new")
    lesson = mine / "lessons" / "01_pmap_spmd.ipynb"
    lesson.write_text("my answers", encoding="utf-8")
    shell = f"set -e; {first}; {second}"
    identity = {
        f"GIT_{who}_{what}": "a@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    subprocess.run(["sh", "-c", shell], cwd=mine, check=True, env=os.environ | identity)
    assert lesson.read_text(encoding="utf-8") == "my answers"
    other = mine / "lessons" / "02_collectives.ipynb"
    assert other.read_text(encoding="utf-8") == "new 02_collectives"
