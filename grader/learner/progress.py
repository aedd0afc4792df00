"""Writes the page on which a learner sees what is done, and one to show to others."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, NamedTuple

from coursekit import i18n
from grader import ROOT
from grader.atomic_files import write
from grader.authoring.build import own_path, read
from grader.authoring.lesson import repository_address
from grader.lessons.release import (
    checks,
    lesson_number,
    lesson_paths,
    nbgrader_metadata,
    title,
)
from grader.pages.page import PageBudget, render, translated
from grader.pages.wording import OUTCOMES, points_of
from grader.results import ExerciseResult, Outcome, Result, from_json, to_json
from grader.workers.cache_key import sha256

PAGE, CERTIFICATE = "progress.html", "certificate.html"
FOLDER = ".progress"  # a file for each lesson that was checked


class Saved(NamedTuple):
    """What is known of a lesson: the last result, for which notebook, and when."""

    result: Result | None = None
    notebook: str = ""  # its hash
    date: str = ""


def save(result: Result, root: Path = ROOT) -> None:
    """Saves what a check of one's own notebook found, for the pages."""
    [source] = lesson_paths([result.lesson], root)
    today = datetime.date.today().isoformat()
    facts = Saved(to_json(result), digest(source, root), today)._asdict()
    write(root / FOLDER / f"{result.lesson}.json", json.dumps(facts))


def saved(source: Path, root: Path) -> Saved:
    try:
        text = (root / FOLDER / f"{source.stem}.json").read_text(encoding="utf-8")
        found = Saved(**json.loads(text))
        return found._replace(result=from_json(found.result))
    except (OSError, ValueError, KeyError, TypeError):
        return Saved()


def digest(source: Path, root: Path) -> str:
    """Hashes a learner's notebook; "" where there is none."""
    path = own_path(source, root)
    return sha256(path.read_bytes()) if path.is_file() else ""


def write_pages(root: Path = ROOT, name: str = "") -> tuple[Path, Path]:
    """Writes both pages from what was saved; returns their files.

    `name` is the learner's, on the certificate; by default a line to write it on.
    """
    budget = PageBudget()
    lessons = [lesson_facts(source, root, budget) for source in lesson_paths((), root)]
    facts = {
        "language": i18n.language(),
        "lessons": lessons,
        "points": sum(one["points"] for one in lessons),
        "bonus": sum(one["bonus"] for one in lessons),
        "max_points": sum(one["max_points"] for one in lessons),
    }
    following = next((one for one in lessons if one["next"]), None)
    write(root / PAGE, render("progress.html.j2", next=following, **facts))
    text = render(
        "certificate.html.j2",
        name=budget.line(name, 100),
        num_done=sum(one["num_done"] for one in lessons),
        num_exercises=sum(len(one["exercises"]) for one in lessons),
        date=max(one["date"] for one in lessons),
        repository=repository_address(root),
        **facts,
    )
    write(root / CERTIFICATE, text)
    return root / PAGE, root / CERTIFICATE


def lesson_facts(source: Path, root: Path, budget: PageBudget) -> dict[str, Any]:
    """Describes one lesson: its points, its exercises, what comes next in it."""
    lesson, last = read(source, root), saved(source, root)
    result = last.result
    done = {one.exercise: one for one in result.exercises} if result else {}
    exercises = []
    for place, (name, check) in enumerate(checks(lesson).items(), 1):
        points = nbgrader_metadata(check)["points"]
        untouched = ExerciseResult(name, Outcome.NOT_ATTEMPTED, 0, points)
        one = done.get(name, untouched)
        message = translated(one.message or OUTCOMES[one.outcome].fallback)
        if one.outcome in (Outcome.PASSED, Outcome.NOT_ATTEMPTED):
            message = ""
        exercises.append(
            {
                "number": f"{lesson_number(source.stem)}.{place}",
                "name": name,
                "wording": OUTCOMES[one.outcome],
                "points": one.points,
                "max_points": points,
                "worth": points_of(one.points, points),
                "message": budget.line(message, 300),
                "is_right": one.outcome is Outcome.PASSED,
            }
        )
    left = [one for one in exercises if not one["is_right"]]
    return {
        "title": translated(title(lesson, source.stem)),
        "file": own_path(source, root).relative_to(root).as_posix(),
        "checked": result is not None,
        "changed": bool(result) and last.notebook != digest(source, root),
        "date": last.date,
        "fingerprint": last.notebook[:12],
        "exercises": exercises,
        "points": sum(one["points"] for one in exercises),
        "bonus": sum(one["points"] for one in exercises if not one["max_points"]),
        "max_points": sum(one["max_points"] for one in exercises),
        "num_done": len(exercises) - len(left),
        "next": left[0] if left else None,
    }
