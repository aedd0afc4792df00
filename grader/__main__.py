"""The command line: build the lessons, check one's own work, make a class's folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader import build as building
from grader.lesson import ROOT
from grader.source import SourceError


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m grader", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write the notebooks from their sources")
    build.add_argument("lessons", nargs="*", help="for example 01; all by default")
    build.add_argument("--check", action="store_true", help="only name stale files")
    options = parser.parse_args(argv)
    try:
        return run_build(options.lessons, options.check)
    except (SourceError, building.BuildError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def run_build(lessons: list[str], only_check: bool) -> int:
    """Builds, or names what a build would change."""
    if only_check:
        stale = building.stale(lessons)
        for path, reason in stale.items():
            print(f"{path.relative_to(ROOT)} {reason}.")
        if stale:
            print(f"Run `{building.COMMAND}` and commit what it writes.")
        return 1 if stale else 0
    for path in building.build(lessons):
        print(f"wrote {Path(path).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
