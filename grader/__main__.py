"""Builds the lessons, checks one's own work, opens JupyterLab, sets up a class."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader import ROOT

sys.path.append(str(ROOT / "lessons"))
from start import SetupError, check_python

try:
    check_python(sys.version_info[:2])
except SetupError as error:
    sys.exit(str(error))


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done, 1 stale, 2 bad input."""
    options = parse(argv)
    try:
        from grader.build import BuildError
        from grader.source import SourceError
    except ModuleNotFoundError as error:
        print(
            f"{sys.executable} lacks the package {error.name}. Run `make lab` once, or "
            "`pip install -r requirements.txt`, and use that environment's Python.",
            file=sys.stderr,
        )
        return 2
    try:
        return options.run(options)
    except (SourceError, BuildError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


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
    course = command("course", run_course, "Make an nbgrader course folder.")
    course.add_argument("folder", type=Path)
    course.add_argument("--update", action="store_true", help="renew its source/")
    return parser.parse_args(argv)


def run_build(options: argparse.Namespace) -> int:
    """Builds, or names what a build would change."""
    from grader.build import COMMAND, build, stale

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
    """Grades the learner's own notebooks and prints a table."""
    from grader.own_work import check_own, table

    for result in check_own(options.lessons):
        print(table(result))
    return 0


def run_lab(options: argparse.Namespace) -> int:
    """Opens JupyterLab."""
    from grader.lab import start_lab

    start_lab(options.port, browser=not options.no_browser)
    return 0


def run_course(options: argparse.Namespace) -> int:
    """Makes a course folder, or renews its lessons."""
    from grader.course import make_course

    names = make_course(options.folder, update=options.update)
    print(f"{options.folder} now holds {', '.join(names)}.")
    if names:
        print(f"Next: cd {options.folder}; nbgrader generate_assignment {names[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
