"""Writes the page that an instructor reads about a class's work for one lesson."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from grader.pages.page import PageBudget, render
from grader.pages.similar_work import PUBLISHED, Answers
from grader.pages.wording import OUTCOMES, STATUSES
from grader.results import ExerciseResult, Outcome, Result, Status, late_text
from grader.submissions.clean_text import clean_line
from lessons.coursekit.outcomes import FAILS, HOLDS

MAX_FAILURES, MAX_LEARNERS, MAX_REASONS = 5, 300, 5
MAX_GROUPS, MAX_IN_GROUP = 50, 20  # of learners with equal answers
SEE_ABOVE = "see above"  # a statement that failed together with an earlier one


class ClassReport:
    """A report that takes in one result after the other, and keeps only what it shows.

    Learners are known by their ids, never by names; `solutions` holds the source of
    each exercise as solved. The page does not depend on the order of the results.
    """

    def __init__(self, lesson: str, *, title: str, solutions: Mapping[str, str]):
        self.lesson, self.title = lesson, title
        self.statuses: Counter[Status] = Counter()
        self.scores: list[float] = []
        self.max_points = 0.0
        self.people: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self.exercises: dict[str, ExerciseCounts] = defaultdict(ExerciseCounts)
        self.answers = Answers(solutions)

    def add(self, student: str, result: Result) -> None:
        self.statuses[result.status] += 1
        if result.score is not None:
            self.scores.append(result.score)
            self.max_points = max(self.max_points, result.max_points)
        if not result.is_graded:
            self._list(result.status, student, result.reasons)
        listed = {
            "limits": result.limits,
            "notes": result.notes,
            "to_review": result.to_review,
            "decided": result.decisions,
            "late": [late_text(result)] if result.late else [],
        }
        for name, texts in listed.items():
            if texts:
                self._list(name, student, texts)
        if result.is_graded:
            for one in result.exercises:
                self.exercises[one.exercise].add(student, one)
        self.answers.add(student, result.exercises)

    def _list(self, name: str, student: str, texts: Sequence[str]) -> None:
        self.people[name][student] = [clean_line(t, 500) for t in texts[:MAX_REASONS]]

    def page(self) -> str:
        budget = PageBudget(text_bytes=1_000_000)

        def people(name: str) -> tuple[list, int]:
            """Makes a row for each learner, and counts those left out."""
            found = sorted(self.people[name].items())
            rows = [
                (budget.line(student, 100), budget.lines(texts))
                for student, texts in found[:MAX_LEARNERS]
            ]
            return rows, len(found) - len(rows)

        return render(
            "class_report.html.j2",
            title=budget.line(self.title, 200),
            lesson=budget.line(self.lesson, 100),
            statuses=[
                (
                    s.replace("_", " ").capitalize(),
                    STATUSES[s].meaning,
                    self.statuses[s],
                )
                for s in Status
            ],
            num_submissions=self.statuses.total(),
            num_graded=sum(self.statuses[s] for s in Status if s.is_graded),
            review=people(Status.NEEDS_REVIEW),
            infra=people(Status.INFRA_ERROR),
            nothing=people(Status.STUDENT_ERROR),
            to_review=people("to_review"),
            decided=people("decided"),
            late=people("late"),
            limits=people("limits"),
            notes=people("notes"),
            similar=self._similar(budget),
            scores=self._scores(),
            columns=[wording.column for wording in OUTCOMES.values()],
            exercises=[
                one.described(name, budget) for name, one in self.exercises.items()
            ],
            budget=budget,
        )

    def _scores(self) -> dict[str, Any] | None:
        """Describes the scores, and how many are in each tenth of the points."""
        if not self.scores:
            return None
        scores, full = self.scores, self.max_points
        # Rounding must not move a score of exactly 70 % into the tenth below.
        tenths = Counter(
            min(max(int(10 * score / full + 1e-9), 0), 9) if full else 0
            for score in scores
        )
        return {
            "count": len(scores),
            "max_points": full,
            "mean": statistics.fmean(scores),
            "median": statistics.median(scores),
            "bins": [
                (
                    f"{10 * k} to {10 * k + 9 if k < 9 else 100} %",
                    tenths[k],
                    round(100 * tenths[k] / max(tenths.values())),
                )
                for k in reversed(range(10))
            ],
        }

    def _similar(self, budget: PageBudget) -> tuple[list, int]:
        """Makes a row for each group of equal answers, and counts those left out."""
        groups = self.answers.groups()
        rows = []
        for one in groups[:MAX_GROUPS]:
            students = [author for author in one.authors if author != PUBLISHED]
            names = ", ".join(students[:MAX_IN_GROUP])
            if len(students) > MAX_IN_GROUP:
                names += f" and {len(students) - MAX_IN_GROUP} more"
            rows.append(
                {
                    "exercises": budget.line(", ".join(one.exercises), 500),
                    "count": len(students),
                    "students": budget.line(names, 2000),
                    "is_published": PUBLISHED in one.authors,
                }
            )
        return rows, len(groups) - len(rows)


class Sentences:
    """Counts messages, those that differ in their numbers alone together."""

    def __init__(self):
        self.kinds: dict[tuple, dict[str, tuple[int, str]]] = defaultdict(dict)

    def add(self, message: str, student: str, kind: str = "") -> None:
        message = clean_line(message, 300)
        same = self.kinds[kind, re.sub(r"\d[\d.,]*", "0", message)]
        count, first = same.get(message, (0, student))
        same[message] = count + 1, min(first, student)

    def most_frequent(self) -> list[tuple[int, str, str, str]]:
        """Lists (count, kind, its most frequent message, one learner who got it)."""
        found = []
        for (kind, _), same in self.kinds.items():
            message, (_, student) = min(same.items(), key=lambda one: (-one[1][0], one))
            count = sum(number for number, _ in same.values())
            found.append((count, kind, message, student))
        return sorted(found, key=lambda one: (-one[0], one[2], one[1]))


class StatementCounts:
    """In how many answers one statement fails, of those in which it was tried."""

    def __init__(self, is_essential: bool):
        self.is_essential = is_essential
        self.num_failed = self.num_tried = 0
        self.sentences = Sentences()

    def described(self, name: str, budget: PageBudget) -> dict[str, Any]:
        said = self.sentences.most_frequent()[:1]
        return {
            "name": budget.line(name, 80),
            "is_essential": self.is_essential,
            "num_failed": self.num_failed,
            "num_tried": self.num_tried,
            "examples": [
                (budget.line(message, 300), budget.line(student, 100))
                for _, _, message, student in said
            ],
        }


class ExerciseCounts:
    """Outcomes of one exercise, statements that fail, and messages of no statement."""

    def __init__(self):
        self.outcomes: Counter[Outcome] = Counter()
        self.statements: dict[str, StatementCounts] = {}
        self.failures = Sentences()

    def add(self, student: str, one: ExerciseResult) -> None:
        self.outcomes[one.outcome] += 1
        for statement in one.statements:
            counts = self.statements.setdefault(
                statement.name, StatementCounts(statement.is_essential)
            )
            counts.num_tried += statement.standing in (FAILS, HOLDS)
            if statement.standing == FAILS:
                counts.num_failed += 1
                if statement.headline not in ("", SEE_ABOVE):
                    counts.sentences.add(statement.headline, student)
        is_counted = any(statement.standing == FAILS for statement in one.statements)
        if not (is_counted or one.outcome in (Outcome.PASSED, Outcome.NOT_ATTEMPTED)):
            column = OUTCOMES[one.outcome].column
            self.failures.add(one.message or str(one.outcome), student, column)

    def described(self, name: str, budget: PageBudget) -> dict[str, Any]:
        failures = self.failures.most_frequent()
        rarer = failures[MAX_FAILURES:]
        return {
            "name": budget.line(name, 80),
            "counts": [self.outcomes[outcome] for outcome in OUTCOMES],
            "share": round(100 * self.outcomes[Outcome.PASSED] / self.outcomes.total()),
            "statements": [
                counts.described(statement, budget)
                for statement, counts in self.statements.items()
                if counts.num_failed
            ],
            "failures": [
                (count, kind, budget.line(message, 300))
                for count, kind, message, _ in failures[:MAX_FAILURES]
            ],
            "num_more": len(rarer),
            "num_in_more": sum(count for count, *_ in rarer),
        }
