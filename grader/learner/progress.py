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
from grader.pages.wording import OUTCOMES, worth
from grader.results import Outcome, Result, from_json, to_json
from grader.workers.cache_key import sha256

PAGE = "progress.html"
KEPT = ".progress"  # what the page is made of: a file per lesson that was checked


def keep(result: Result, root: Path = ROOT) -> None:
    """Keeps what a check of one's own notebook found, for the page."""
    [source] = lesson_paths([result.lesson], root)
    facts = {"result": to_json(result), "notebook": digest(source, root)}
    write(root / KEPT / f"{result.lesson}.json", json.dumps(facts))


def kept(source: Path, root: Path) -> tuple[Result, bool] | None:
    """Returns a lesson's last result, and whether the notebook changed since."""
    try:
        facts = json.loads(
            (root / KEPT / f"{source.stem}.json").read_text(encoding="utf-8")
        )
        return from_json(facts["result"]), facts["notebook"] != digest(source, root)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest(source: Path, root: Path) -> str:
    """Hashes a learner's notebook; "" where there is none."""
    path = own_path(source, root)
    return sha256(path.read_bytes()) if path.is_file() else ""


def write_page(root: Path = ROOT) -> Path:
    """Writes the page from what was kept; returns its file."""
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
    lesson, found = read(source, root), kept(source, root)
    result, changed = found or (None, False)
    done = {one.exercise: one for one in result.exercises} if result else {}
    number, exercises = lesson_number(source.stem), []
    for place, (name, check) in enumerate(checks(lesson).items(), 1):
        one = done.get(name)
        outcome = one.outcome if one else Outcome.NOT_ATTEMPTED
        wording = OUTCOMES[outcome]
        is_done = outcome is Outcome.PASSED
        is_open = outcome not in (Outcome.PASSED, Outcome.NOT_ATTEMPTED)
        exercises.append(
            {
                "number": f"{number}.{place}",
                "name": name,
                "outcome": wording.name,
                "tone": wording.tone,
                "points": one.points if one else 0,
                "max_points": (most := nbgrader_metadata(check)["points"]),
                "worth": worth(one.points if one else 0, most),
                "message": budget.line(one.message or wording.fallback, 300)
                if is_open
                else "",
                "done": is_done,
            }
        )
    left = [one for one in exercises if not one["done"]]
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
