"""Grades one submission where another service runs the grader: Gradescope, GitHub.

There the learner's code runs beside the checks, in a machine for this submission alone:
what it may do, that machine decides, and not this grader.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coursekit.outcomes import HOLDS, StatementResult
from grader import ROOT
from grader.atomic_files import write, write_file
from grader.authoring.build import lesson_sources, read
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.lessons import coursekit
from grader.lessons.release import lesson_paths
from grader.results import ExerciseResult, Result, Status
from grader.submissions.read_submission import read_submission

SEED = "seed.txt"
FILES = "pyproject.toml", "requirements.txt", coursekit.SETUP_CELL
SETUP = """\
#!/usr/bin/env bash
# Runs once, when Gradescope builds the image: choose Ubuntu 24.04 there.
set -e
apt-get update
apt-get install -y python3 python3-venv
cd "${AUTOGRADER:-/autograder}/source"
python3 -m venv .venv
.venv/bin/python -m pip install -r course/requirements.txt
"""
RUN = """\
#!/usr/bin/env bash
# Runs for each submission.
set -e
HERE="${{AUTOGRADER:-/autograder}}"
cd "$HERE/source/course"
exec "${{PYTHON:-$HERE/source/.venv/bin/python}}" -m grader result "$HERE/submission" \\
    --lesson {lesson} --format gradescope --to "$HERE/results/results.json"{private}
"""


def write_result(
    submission: Path, lesson: str, kind: str, to: Path, folder: Path | None = None
) -> None:
    """Grades a notebook, or that of the lesson in a folder.

    Raises:
        ValueError: no such lesson, file or format.
    """
    if kind not in FORMATS:
        raise ValueError(f'No format "{kind}": choose {", ".join(FORMATS)}.')
    private = [folder.expanduser().resolve()] if folder else []
    [source] = lesson_paths([lesson], ROOT, private)
    if not submission.exists():
        raise ValueError(f"{submission} does not exist.")
    made = read(source, source.parents[1])
    seed = source.parents[1] / SEED
    made.metadata["seed"] = int(seed.read_text()) if seed.exists() else 0
    submitted = read_submission(submission, source.stem)
    with contextlib.closing(JudgeProcess(made, trusted=True)) as judge:
        result = grade_submission(
            submitted, made, source.stem, judge, Limits(), trusted=True
        )
    write(to, json.dumps(FORMATS[kind](result), indent=2, ensure_ascii=False) + "\n")
    print(f"wrote {to}: {result.status}, {result.points:g} of {result.max_points:g}")


def gradescope(result: Result) -> dict[str, Any]:
    """Source: gradescope-autograders.readthedocs.io, "Autograder specifications"."""
    tests = [
        {
            "name": name,
            "score": round(score, 2),
            "max_score": round(most, 2),
            "output": text,
            "visibility": "visible",
        }
        for name, score, most, text in rows(result)
    ]
    said = "\n".join([*result.reasons, *result.notes])
    return {"score": result.points, "output": said, "tests": tests}


def classroom50(
    result: Result, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Counts in hundredths of a point, since Classroom 50 takes whole numbers.

    Source: schemas/result-v1.schema.json of foundation50/classroom50. Its runner adds
    whose it is and when it was submitted.
    """
    tests = [
        {
            "test-name": name,
            "passed": score >= most,
            "score": round(100 * min(score, most)),
            "max-score": round(100 * most),
            "output": text,
        }
        for name, score, most, text in rows(result)
    ]
    names = {"classroom": "CLASSROOM", "assignment": "ASSIGNMENT"}
    names |= {"submission": "SUBMISSION_TAG", "commit": "COMMIT_URL"}
    names |= {"release": "RELEASE_URL", "review": "REVIEW_URL"}
    facts = {fact: environment.get(name, "") for fact, name in names.items()}
    most = round(100 * result.max_points)
    score = min(round(100 * result.points), most)
    total = {"score": score, "max-score": most, "tests": tests}
    return {"schema": "classroom50/result/v1"} | facts | total


FORMATS = {"gradescope": gradescope, "classroom50": classroom50}


def rows(result: Result) -> Iterator[tuple[str, float, float, str]]:
    """Yields each statement: its name, points, points possible, and what was seen."""
    if not result.is_graded:
        status = {Status.NEEDS_REVIEW: "A person has to look at it."}
        said = status.get(result.status) or " ".join(result.reasons)
        yield "submission", 0.0, result.max_points, said
        return
    for one in result.exercises:
        if one.statements:
            yield from (row_of(one, statement) for statement in one.statements)
        else:
            text = one.message or str(one.outcome)
            yield one.exercise, one.points, one.max_points, text


def row_of(
    one: ExerciseResult, statement: StatementResult
) -> tuple[str, float, float, str]:
    """Shares out an exercise's points; without the essential ones no other counts."""
    share = statement.share
    if statement.is_essential:
        num_essential = sum(other.is_essential for other in one.statements)
        share = (1 - sum(other.share for other in one.statements)) / num_essential
    earned = share * one.worth if statement.standing == HOLDS and one.share else 0.0
    lines = [f"{name}: {text}" for name, text in statement.rows]
    text = "\n".join(filter(None, [statement.standing, statement.headline, *lines]))
    name = f"{one.exercise}: {statement.name}"
    return name, earned, share * one.max_points, text


def pack(lesson: str, to: Path, folder: Path | None = None) -> None:
    """Writes Gradescope's autograder for a lesson: the scripts, the grader, a seed."""
    root = folder.expanduser().resolve() if folder else ROOT
    [source] = lesson_paths([lesson], root)
    place = "course/private" if folder else "course"
    private = " --folder private" if folder else ""
    run = RUN.format(lesson=source.stem, private=private)
    files = {"setup.sh": SETUP, "run_autograder": run}
    kept = [ROOT / name for name in FILES]
    kept += [*(ROOT / "grader").rglob("*"), *coursekit.folder().rglob("*.py")]
    for path in kept:
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files[f"course/{name}"] = path.read_text(encoding="utf-8")
    for name, text in lesson_sources(root, [source.stem]).items():
        files[f"{place}/{name}"] = text
    files[f"{place}/{SEED}"] = f"{secrets.randbits(128)}\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            is_script = name in ("setup.sh", "run_autograder")
            info.external_attr = (0o755 if is_script else 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
    write_file(to, data.getvalue(), mode=0o600)  # solutions are in it
    print(f"wrote {to}: for {source.stem}, to be uploaded as the autograder")
