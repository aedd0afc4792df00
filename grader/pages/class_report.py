"""Writes the page that an instructor reads about a class's work for one lesson."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping

from coursekit.outcomes import FAILS, HOLDS
from grader.pages.page import PageBudget, render
from grader.pages.similar_work import PUBLISHED, Answers
from grader.pages.wording import OUTCOMES, STATUSES, with_name
from grader.results import ExerciseResult, Outcome, Result, Status, late_text
from grader.submissions.clean_text import clean_line

MAX_REASONS = 5  # of a learner
SEE_ABOVE = "see above"  # a statement that failed together with an earlier one


class ClassReport:
    """A report that takes in one result after the other, and keeps only what it shows.

    `solutions` holds the source of each exercise as solved; `names` are those of the
    learners, by id. The page does not depend on the order of the results.
    """

    def __init__(
        self,
        lesson: str,
        *,
        title: str,
        solutions: Mapping[str, str],
        names: Mapping[str, str],
    ):
        self.lesson, self.title, self.names = lesson, title, names
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
        listed = {
            "limits": result.limits,
            "notes": result.notes,
            "to_review": result.to_review,
            "decided": result.decisions,
            "late": [late_text(result)] if result.late else [],
        }
        if result.is_graded:
            for one in result.exercises:
                self.exercises[one.exercise].add(student, one)
        else:
            listed[result.status] = result.reasons or ["no reason given"]
        for name, texts in listed.items():
            if texts:
                shown = [clean_line(text, 500) for text in texts[:MAX_REASONS]]
                self.people[name][student] = shown
        self.answers.add(
            student, {one.exercise: one.source for one in result.exercises}
        )

    def learner(self, student: str) -> str:
        return with_name(student, self.names.get(student, ""))

    def page(self) -> str:
        return render(
            "class_report.html.j2",
            report=self,
            statuses=STATUSES,
            outcomes=OUTCOMES,
            num_graded=sum(self.statuses[s] for s in Status if s.is_graded),
            mean=statistics.fmean,
            median=statistics.median,
            groups=self.answers.groups(),
            published=PUBLISHED,
            budget=PageBudget(1_000_000),
        )

    @property
    def tenths(self) -> list[int]:
        """Counts the scores in each tenth of the points, from 0 up."""
        # Rounding must not move a score of exactly 70 % into the tenth below.
        most = self.max_points or 1
        places = (int(10 * score / most + 1e-9) for score in self.scores)
        counts = Counter(min(max(place, 0), 9) for place in places)
        return [counts[place] for place in range(10)]


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

    @property
    def failing(self) -> dict[str, StatementCounts]:
        return {name: one for name, one in self.statements.items() if one.num_failed}
