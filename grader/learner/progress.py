"""Writes the page on which a learner sees what is done, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader import ROOT
from grader.atomic_files import write
from grader.authoring.build import own_path, read
from grader.authoring.release import (
    checks,
    lesson_number,
    lesson_paths,
    nbgrader_metadata,
    title,
)
from grader.pages.page import PageBudget, render
from grader.pages.wording import OUTCOMES, points_of
from grader.results import ExerciseResult, Outcome, Result, from_json, to_json
from grader.workers.cache_key import sha256

PAGE = "progress.html"
FOLDER = ".progress"  # a file for each lesson that was checked


def save(result: Result, root: Path = ROOT) -> None:
    """Saves what a check of one's own notebook found, for the page."""
    [source] = lesson_paths([result.lesson], root)
    facts = {"result": to_json(result), "notebook": digest(source, root)}
    write(root / FOLDER / f"{result.lesson}.json", json.dumps(facts))


def saved(source: Path, root: Path) -> tuple[Result | None, bool]:
    """Returns a lesson's last result, and whether the notebook changed since."""
    try:
        text = (root / FOLDER / f"{source.stem}.json").read_text(encoding="utf-8")
        facts = json.loads(text)
        return from_json(facts["result"]), facts["notebook"] != digest(source, root)
    except (OSError, ValueError, KeyError, TypeError):
        return None, False


def digest(source: Path, root: Path) -> str:
    """Hashes a learner's notebook; "" where there is none."""
    path = own_path(source, root)
    return sha256(path.read_bytes()) if path.is_file() else ""


def write_page(root: Path = ROOT) -> Path:
    """Writes the page from what was saved; returns its file."""
    budget = PageBudget()
    lessons = [lesson_facts(source, root, budget) for source in lesson_paths((), root)]
    text = render(
        "progress.html.j2",
        lessons=lessons,
        next=next((one for one in lessons if one["next"]), None),
        points=sum(one["points"] for one in lessons),
        max_points=sum(one["max_points"] for one in lessons),
    )
    write(root / PAGE, text)
    return root / PAGE


def lesson_facts(source: Path, root: Path, budget: PageBudget) -> dict[str, Any]:
    """Describes one lesson: its points, its exercises, what comes next in it."""
    lesson, (result, changed) = read(source, root), saved(source, root)
    done = {one.exercise: one for one in result.exercises} if result else {}
    exercises = []
    for place, (name, check) in enumerate(checks(lesson).items(), 1):
        points = nbgrader_metadata(check)["points"]
        untouched = ExerciseResult(name, Outcome.NOT_ATTEMPTED, 0, points)
        one = done.get(name, untouched)
        message = one.message or OUTCOMES[one.outcome].fallback
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
        "title": title(lesson, source.stem),
        "file": own_path(source, root).relative_to(root).as_posix(),
        "checked": result is not None,
        "changed": changed,
        "exercises": exercises,
        "points": sum(one["points"] for one in exercises),
        "max_points": sum(one["max_points"] for one in exercises),
        "num_done": len(exercises) - len(left),
        "next": left[0] if left else None,
    }
