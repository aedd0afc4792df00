"""Builds the lessons, checks one's own work, opens JupyterLab, grades a class."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import gc
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from coursekit.setup import SetupError, check_python
from grader import FULL, ROOT, CourseError
from grader.containment.limits import DEFAULT_WALL_S, Limits

# Imports make many objects that stay; searching them for garbage adds a quarter.
gc.set_threshold(100_000)

try:
    check_python(sys.version_info[:2])
except SetupError as error:
    sys.exit(str(error))


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done, 1 stale, 2 bad input."""
    options = vars(parse(argv))
    run = options.pop("run")
    if "seconds" in options:
        options["limits"] = Limits(wall_s=options.pop("seconds"))
    try:
        # A command imports only what it needs: all of it takes seconds.
        run = run if callable(run) else pkgutil.resolve_name(f"grader.{run}")
        status = run(**options) or 0
        sys.stdout.flush()
        return status
    except ModuleNotFoundError as error:
        print(
            f"{sys.executable} lacks the package {error.name}. Run `make lab` once, or "
            "`pip install -r requirements.txt` (for tests: "
            "tests/requirements.txt), and use that environment's Python.",
            file=sys.stderr,
        )
    except BrokenPipeError:
        # The reader, such as `head`, has enough. Python flushes again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (CourseError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        if getattr(error, "errno", None) == errno.ENOSPC:
            print(FULL, file=sys.stderr)
    except KeyboardInterrupt:
        # At once: an ordinary exit would wait for the submissions in progress, whose
        # boxes end with this process.
        print("Stopped. What is finished is saved.", file=sys.stderr, flush=True)
        os._exit(130)
    return 2


class Parser(argparse.ArgumentParser):
    """Takes no option that is cut short, and says what a mistyped word may mean."""

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        found = re.search(r"(?:invalid choice: '|arguments: )([^' =]+)", message)
        words = [*self._option_string_actions]
        for action in self._actions:
            words += map(str, action.choices or ())
        if found and (near := difflib.get_close_matches(found[1], words, n=1)):
            message += f". Did you mean {near[0]}?"
        super().error(message)


def parse(argv: list[str] | None) -> argparse.Namespace:
    found, unknown = make_parser().parse_known_args(argv)
    command = vars(found).pop("command")
    if unknown:
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    return found


def make_parser() -> Parser:
    parser = Parser(prog="python -m grader", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable | str, about: str):
        """Adds a command, and what runs it: a function here, or "module:function"."""
        added = commands.add_parser(name, help=about, description=about)
        added.set_defaults(run=run, command=added)
        return added

    build = command("build", run_build, "Write the notebooks from their sources.")
    build.add_argument("--check", action="store_true", help="only name stale files")
    build.add_argument("--rerun", action="store_true", help="run what is fresh, too")
    build.add_argument("--folder", type=Path, help="of your own, private lessons")
    new = command("new", run_new, "Write an example of a private lesson or exercise.")
    kinds = new.add_subparsers(required=True, dest="kind")
    about = "Write a private lesson without exercises."
    lesson = kinds.add_parser("lesson", help=about, description=about)
    about = "Write a working exercise, to be replaced by yours."
    exercise = kinds.add_parser("exercise", help=about, description=about)
    exercise.add_argument("lesson", help="for example 06; one of ours is copied")
    for kind in (lesson, exercise):
        kind.add_argument("name", help="for example masked_mean")
        about = "of your own lessons; it is made if it does not exist"
        kind.add_argument("--folder", type=Path, required=True, help=about)
    check = command("check", run_check, "Grade your own notebooks in lessons/.")
    about = "for example 01; default: all"
    build.add_argument("lessons", nargs="*", help=about)
    about = "for example 01; or one and an exercise in it: 02 masked_mean; default: all"
    check.add_argument("lessons", nargs="*", help=about)
    about = "of one exercise: print the result as JSON, not as a card"
    check.add_argument("--json", dest="as_json", action="store_true", help=about)
    check.add_argument(
        "--name", default="", help="on the certificate; default: a line to write on"
    )
    lab = command("lab", "learner.lab:start_lab", "Open JupyterLab on the lessons.")
    about = "default: the first free one from 8888"
    lab.add_argument("--port", type=whole_number(65_535), help=about)
    about = "only print the address"
    lab.add_argument("--no-browser", dest="browser", action="store_false", help=about)
    about = "Grade one submission into a file for Gradescope or Classroom 50."
    result = command("result", "learner.autograder:write_result", about)
    about = "a notebook, or a folder with one"
    result.add_argument("submission", type=Path, help=about)
    about = "gradescope or classroom50"
    result.add_argument("--format", dest="kind", required=True, help=about)
    about = "Write Gradescope's autograder for a lesson, as a zip file."
    autograder = command("autograder", "learner.autograder:pack", about)
    for of_service in (result, autograder):
        add = of_service.add_argument
        add("--lesson", required=True, help="for example 01")
        add("--to", type=Path, required=True, metavar="FILE", help="the file to write")
        add("--folder", type=Path, help="of your own, private lessons")
    course = command("course", run_course, "Make an nbgrader course folder.")
    about = "a new folder, or with --update that of a class"
    course.add_argument("folder", type=Path, help=about)
    course.add_argument("--update", action="store_true", help="renew its source/")
    about = "with the private lessons in FOLDER; --update keeps them"
    private = {"dest": "private", "action": "append", "default": [], "type": Path}
    course.add_argument("--with", metavar="FOLDER", help=about, **private)
    about = "with --update: no longer with the lessons in FOLDER; ours come back"
    dropped = private | {"dest": "without"}
    course.add_argument("--without", metavar="FOLDER", help=about, **dropped)
    about = "only these, for example 01 02; with --update: as the course has them"
    course.add_argument("--lessons", nargs="+", default=[], help=about)
    course.add_argument(
        "--all-or-nothing",
        action=argparse.BooleanOptionalAction,
        help="no credit for a part; --update keeps what the folder has",
    )

    about = "draw siblings of exercises, which published solutions do not solve"
    course.add_argument("--siblings", action="store_true", help=about)
    about = "of a new class, such as Europe/Berlin; default: the machine's"
    course.add_argument("--timezone", default="", help=about)

    grade = command(
        "grade", "classroom.grade:grade", "Grade everything that was submitted."
    )
    grade.add_argument("folder", type=Path, help="the course folder")
    grade.add_argument("downloads", nargs="*", type=Path, help="zips or folders to add")
    regrade = command(
        "regrade", "classroom.grade:regrade", "Grade again and list what differs."
    )
    explain = command(
        "explain", "classroom.explain:explain", "Say why a learner has this grade."
    )
    export = command(
        "export", "classroom.export:export", "Write all grades into a file."
    )
    about = "Return feedback: as files for the LMS, or by the exchange."
    give_back = command("return", "classroom.returning:return_feedback", about)
    roster = command(
        "roster",
        "classroom.enrollment:roster",
        "Import a roster; list who has not submitted.",
    )
    purge = command(
        "purge", "classroom.purge:purge", "Remove all that is kept about learners."
    )
    for of_class in (regrade, explain, export, give_back, roster, purge):
        of_class.add_argument("folder", type=Path, help="the course folder")
    regrade.add_argument("students", nargs="*", help="default: all")
    regrade.add_argument("--lesson", default="", help="for example 01; default: all")
    regrade.add_argument("--exercise", default="", help="only who tried this one")
    about = "an id, or anything in people.csv that nobody else has"
    explain.add_argument("student", help=about)
    for of_lesson in (explain, give_back):
        of_lesson.add_argument("lesson", help="for example 01")
    about = "Canvas's gradebook or Moodle's grading worksheet, to be filled in"
    export.add_argument("--template", type=Path, metavar="FILE", help=about)
    about = 'the column of a lesson, if it is not found: "01=Homework 1 (12345)"'
    columns = {"action": "append", "default": [], "metavar": "LESSON=COLUMN"}
    export.add_argument("--assignment", dest="assignments", help=about, **columns)
    export.add_argument("--lesson", default="", help="only this one, for example 01")
    for by_section in (grade, regrade, export, give_back):
        about = "only learners in this section of the roster"
        by_section.add_argument("--section", default="", metavar="NAME", help=about)
    about = "points beyond those possible in a --template; default: cap"
    export.add_argument("--bonus", choices=["cap", "keep"], default="cap", help=about)
    about = "moodle, canvas, exchange or zip; default: zip"
    give_back.add_argument("--format", dest="kind", default="zip", help=about)
    for writing in (export, give_back):
        about = "default: in the course's grading/"
        writing.add_argument("--to", type=Path, metavar="FILE", help=about)
    about = "of Canvas or Moodle, or with the columns id, name"
    roster.add_argument("files", nargs="*", type=Path, metavar="FILE.csv", help=about)
    replace = "even if most of the class is not in the files"
    roster.add_argument("--replace", action="store_true", help=replace)
    about = "ids, or anything in people.csv that nobody else has"
    purge.add_argument("students", nargs="+", help=about)
    for changing in (regrade, purge):
        changing.add_argument("--apply", action="store_true", help="not only list it")
    for running in (grade, regrade):
        add = running.add_argument
        about = "default: as many as useful"
        add("--workers", type=whole_number(10_000), default=0, help=about)
        about = "for a cell or question"
        add("--seconds", type=positive, default=DEFAULT_WALL_S, help=about)
        about = 'of a Dask cluster, for instance tcp://host:8786; "local" starts one'
        add("--scheduler", default="", help=about)
        about = "run the code WITHOUT containment"
        add("--trusted", action="store_true", help=about)
    return parser


def positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 10**6:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is no number between 0 and a million")


def whole_number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text} is no whole number up to {most}")

    return read


def run_build(lessons: Sequence[str], folder: Path | None, check: bool, rerun: bool):
    from grader.authoring.build import COMMAND, build, examples_alone, stale

    root = folder.expanduser().resolve() if folder else ROOT
    if not check:
        for path in build(lessons, root, rerun=rerun):
            if root == ROOT or "coursekit" not in path.relative_to(root).parts:
                print(f"wrote {path.relative_to(root)}")
        if root != ROOT:
            for exercise, statement in examples_alone(lessons, root):
                print(
                    f'note: only examples, which learners can read, try "{statement}" '
                    f"of {exercise}, which is essential. Give it a hidden case."
                )
            print(f"Next: python -m grader course CLASS --with {folder}")
        return 0
    found = stale(lessons, root)
    for path, reason in found.items():
        print(f"{path.relative_to(root)} {reason}.")
    if found:
        where = f" --folder {folder}" if folder else ""
        print(f"Run `{COMMAND}{where}` and commit what it writes.")
    return 1 if found else 0


def run_new(kind: str, name: str, folder: Path, lesson: str = "") -> None:
    from grader.authoring.new import new_exercise, new_lesson

    if kind == "lesson":
        written = new_lesson(name, folder)
        exercise = f"exercise {written[0].stem[:2]} NAME --folder {folder}"
        next_step = f"python -m grader new {exercise}"
    else:
        written = new_exercise(lesson, name, folder)
        next_step = f"python -m grader build --folder {folder}"
    for path in written:
        print(f"wrote {path}")
    print(f"Next: {next_step}")


def run_check(lessons: Sequence[str], name: str, as_json: bool) -> None:
    from grader.learner import progress
    from grader.learner.own_work import check_own
    from grader.pages.terminal import cards_of_failures, plain_card, table
    from grader.results import to_json

    *lesson, last = lessons or [""]
    if lesson and not last[:1].isdigit():  # an exercise
        [result] = check_own(lesson, exercise=last)
        print(to_json(result) if as_json else plain_card(result.exercises[0]))
        return
    if as_json:
        raise ValueError("--json needs an exercise: check 02 masked_mean --json")
    for result in check_own(lessons):
        print(table(result))
        for card in cards_of_failures(result):
            print(card + "\n")
        for note in result.notes:
            print(f"note: {note}")
        progress.save(result)
    page, certificate = progress.write_pages(name=name)
    print(f"All lessons, and what to do next: {page}")
    print(f"To print or to show to others: {certificate}")


def run_course(folder: Path, update: bool, **chosen) -> None:
    from grader.classroom import gradebook
    from grader.classroom.course import make_course
    from grader.classroom.folder import CONFIG, Classroom

    done = make_course(folder, update=update, **chosen)
    for name, what in done.items():
        print(f"{name}: {what}")
    classroom = Classroom(folder)
    if any(classroom.folder.glob("grading/published/*")):
        with classroom.store.writing():
            gradebook.add_lessons(classroom)  # before nbgrader releases them
    if any(what.startswith(("kept", "left out")) for what in done.values()):
        print("To take a lesson as the course has it: --update --lessons 01")
    if not update:
        zone = classroom.zone.key
        print(f"Times are in {zone}: c.Classroom.timezone in {folder / CONFIG}")
        print(f"Next: python -m grader grade {folder} DOWNLOADS")
        print("A release of your own: nbgrader generate_assignment, in that folder.")


if __name__ == "__main__":
    sys.exit(main())
