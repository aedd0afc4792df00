"""Builds the lessons, checks one's own work, opens JupyterLab, grades a class."""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import sys
from pathlib import Path

from grader import ROOT, CourseError
from grader.containment.limits import DEFAULT_WALL_S
from lessons.coursekit.setup import SetupError, check_python

# Imports make much that stays; looking through it again and again adds a quarter.
gc.set_threshold(100_000)

try:
    check_python(sys.version_info[:2])
except SetupError as error:
    sys.exit(str(error))


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done, 1 stale, 2 bad input."""
    options = parse(argv)
    try:
        return options.run(options)
    except ModuleNotFoundError as error:
        print(
            f"{sys.executable} lacks the package {error.name}. Run `make lab` once, or "
            "`pip install -r requirements.txt` (for the website and for tests: "
            "tests/requirements.txt), and use that environment's Python.",
            file=sys.stderr,
        )
        return 2
    except (CourseError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # At once: an ordinary exit would wait for the submissions in progress, whose
        # boxes end with this process.
        print("Stopped. What is finished is saved.", file=sys.stderr, flush=True)
        os._exit(130)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m grader", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(name, run, about):
        added = commands.add_parser(name, help=about, description=about)
        added.set_defaults(run=run)
        return added

    build = command("build", run_build, "Write the notebooks from their sources.")
    build.add_argument("lessons", nargs="*", help="for example 01; default: all")
    build.add_argument("--check", action="store_true", help="only name stale files")
    check = command("check", run_check, "Grade your own notebooks in lessons/.")
    check.add_argument("lessons", nargs="*", help="for example 01; default: all")
    lab = command("lab", run_lab, "Open JupyterLab on the lessons.")
    lab.add_argument("--port", type=int, help="default: the first free one from 8888")
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    site = command("site", run_site, "Write the course's website, as files.")
    site.add_argument("--to", type=Path, help="the folder; default: _site/")
    course = command("course", run_course, "Make an nbgrader course folder.")
    course.add_argument("folder", type=Path)
    course.add_argument("--update", action="store_true", help="renew its source/")
    course.add_argument(
        "--all-or-nothing",
        action=argparse.BooleanOptionalAction,
        help="no credit for a part; --update keeps what the folder has",
    )
    add_class_commands(command)
    return parser.parse_args(argv)


def add_class_commands(command) -> None:
    """Adds what an instructor does with a class."""
    folder = {"type": Path, "help": "the course folder"}
    grade = command("grade", run_grade, "Grade everything that was submitted.")
    grade.add_argument("folder", type=Path, help="course folder, or an LMS download")
    grade.add_argument("downloads", nargs="*", type=Path, help="zips or folders to add")
    regrade = command("regrade", run_regrade, "Grade again and list what differs.")
    regrade.add_argument("folder", **folder)
    regrade.add_argument("students", nargs="*", help="default: all")
    explain = command("explain", run_explain, "Say why a learner has this grade.")
    explain.add_argument("folder", **folder)
    explain.add_argument("student")
    explain.add_argument("lesson", help="for example 01")
    export = command("export", run_export, "Write all grades into a file.")
    export.add_argument("folder", **folder)
    export.add_argument("--format", default="csv", help="csv, canvas or moodle")
    export.add_argument("--to", type=Path, help="default: in the course's grading/")
    purge = command("purge", run_purge, "Remove all that is kept about learners.")
    purge.add_argument("folder", **folder)
    purge.add_argument("students", nargs="+")
    for changing in (regrade, purge):
        changing.add_argument("--apply", action="store_true", help="not only list it")
    for running in (grade, regrade):
        running.add_argument("--workers", type=positive(int), default=0)
        running.add_argument(
            "--seconds",
            type=positive(float),
            default=DEFAULT_WALL_S,
            help="for a cell or question",
        )
        running.add_argument(
            "--scheduler",
            default="",
            help='of a Dask cluster, for instance tcp://host:8786; "local" starts one',
        )
        running.add_argument(
            "--trusted", action="store_true", help="run the code WITHOUT containment"
        )


def positive(kind):
    """Makes a reader of positive numbers for the command line."""

    def read(text: str):
        number = kind(text)
        if not 0 < number < 10**6:
            raise argparse.ArgumentTypeError(f"{text} is not between 0 and a million")
        return number

    read.__name__ = "positive number"
    return read


def run_build(options: argparse.Namespace) -> int:
    """Builds, or names what a build would change."""
    from grader.authoring.build import COMMAND, build, stale

    if not options.check:
        for path in build(options.lessons):
            print(f"wrote {path.relative_to(ROOT)}")
        return 0
    found = stale(options.lessons)
    for path, reason in found.items():
        print(f"{path.relative_to(ROOT)} {reason}.")
    if found:
        print(f"Run `{COMMAND}` and commit what it writes.")
    return 1 if found else 0


def run_check(options: argparse.Namespace) -> int:
    """Grades the learner's own notebooks; prints a table, and a card of what fails."""
    from grader.learner.own_work import check_own
    from grader.learner.progress import keep, write_page
    from grader.pages.cards import cards_of_failures
    from grader.pages.terminal import table

    for result in check_own(options.lessons):
        print(table(result))
        for card in cards_of_failures(result):
            print(card + "\n")
        for note in result.notes:
            print(f"note: {note}")
        keep(result)
    print(f"All lessons, and what to do next: {write_page()}")
    return 0


def run_lab(options: argparse.Namespace) -> int:
    """Opens JupyterLab."""
    from grader.learner.lab import start_lab

    start_lab(options.port, browser=not options.no_browser)
    return 0


def run_site(options: argparse.Namespace) -> int:
    """Builds the website."""
    from grader.authoring.website import build_site

    print(f"wrote {build_site(options.to) / 'index.html'}")
    return 0


def run_course(options: argparse.Namespace) -> int:
    """Makes a course folder, or renews its lessons."""
    from grader.classroom.course import make_course

    names = make_course(
        options.folder, update=options.update, all_or_nothing=options.all_or_nothing
    )
    print(f"{options.folder} now holds {', '.join(names)}.")
    if names:
        print(f"Next: python -m grader grade {options.folder} DOWNLOADS")
        print("A release of your own: nbgrader generate_assignment, in that folder.")
    return 0


def now() -> str:
    """Returns the time, for the log."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def run_grade(options: argparse.Namespace) -> int:
    """Grades a class."""
    if not (options.trusted or options.scheduler):
        from grader.kernel.learner_box import start_fork_server_for

        start_fork_server_for(options.folder)  # while all the rest is imported

    from grader.classroom.grade import grade

    return grade(options.folder, options.downloads, now=now(), **running(options))


def run_regrade(options: argparse.Namespace) -> int:
    """Grades a class again."""
    from grader.classroom.grade import regrade

    apply = {"apply": options.apply}
    return regrade(
        options.folder, options.students, now=now(), **apply, **running(options)
    )


def running(options: argparse.Namespace) -> dict:
    """Reads how learners' code is to be run."""
    from grader.containment.limits import Limits

    return {
        "workers": options.workers,
        "limits": Limits(wall_s=options.seconds),
        "trusted": options.trusted,
        "scheduler": options.scheduler,
    }


def run_explain(options: argparse.Namespace) -> int:
    """Explains a grade."""
    from grader.classroom.explain import explain

    return explain(options.folder, options.student, options.lesson)


def run_export(options: argparse.Namespace) -> int:
    """Exports all grades."""
    from grader.classroom.export import export

    return export(options.folder, options.format, options.to)


def run_purge(options: argparse.Namespace) -> int:
    """Removes learners' data."""
    from grader.classroom.purge import purge

    return purge(options.folder, options.students, now=now(), apply=options.apply)


if __name__ == "__main__":
    sys.exit(main())
