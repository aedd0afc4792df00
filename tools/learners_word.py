"""Lists what each statement of a lesson rests on, in points.

Checks each exercise's solution as the judge does, and notes which facts of which
observations a statement's expectations read. A statement rests on

- the program, if they read what the judge derives from an exported program;
- values, if they compare what was returned: that has to be right for inputs that are
  drawn for the class, but may have been computed in any way;
- the learner's word, if they read nothing but errors, prints, counts of compilations,
  changed arguments, and other facts that only the learner's process knows.
"""

import argparse
import collections
import contextlib
import dataclasses
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]

from coursekit import outcomes, reference_checks, setup

setup.with_devices(8)

from coursekit.observation import Observation
from grader.authoring.lesson import read_lesson
from grader.judging.judge import Judge
from grader.judging.judge_process import material

REPORTED = {"error", "printed", "changed", "num_compiles"}  # by a call, traced or not
NO_FACTS = {"function", "call", "refused"}
PROGRAM, VALUES, WORD = "the program", "values", "the learner's word"
read = collections.defaultdict(set)  # by (exercise, statement): facts of observations
within: list[str] = []  # the statements whose expectations run now


class Watched(Observation):
    """An observation that notes which of its facts are read."""

    is_clean = False

    def __getattribute__(self, name):
        fields = super().__getattribute__("__dict__")
        if name in fields and name not in NO_FACTS and outcomes.current():
            is_traced = fields["array_shapes"] is not None
            is_own = type(self).is_clean or fields["function"] in judge.functions
            for statement in within:
                key = outcomes.current().exercise, statement
                read[key].add((name, is_traced, is_own))
        return super().__getattribute__(name)


class Clean(Watched):
    """An observation of a process that never ran the learner's code."""

    is_clean = True


def watched(observe):
    def observing(*arguments, **options):
        seen = observe(*arguments, **options)
        facts = {f.name: getattr(seen, f.name) for f in dataclasses.fields(seen)}
        return (Clean if options.get("clean") else Watched)(**facts)

    return observing


def noting(statement):
    @contextlib.contextmanager
    def noted(*names):
        with statement(*names):
            within[:] = names
            try:
                yield
            finally:
                within.clear()

    return noted


def rests_on(facts):
    if any(is_traced and fact not in REPORTED for fact, is_traced, _ in facts):
        return PROGRAM
    # What compares a helper's result reads its layout, too, to name devices. Whether a
    # result was remembered is asked of values that another statement compares.
    if not facts or any(
        fact == "layout" or (fact == "value" and own) for fact, _, own in facts
    ):
        return VALUES
    return WORD


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("lesson", help="the name of a lesson, such as 01_pmap_spmd")
parser.add_argument("exercises", nargs="*", help="default: all")
options = parser.parse_args()
outcomes.statement = reference_checks.statement = noting(outcomes.statement)
lesson = read_lesson(
    ROOT / "solutions" / f"{options.lesson}.py", "https://example.org/a/b"
)
judge = Judge(lambda question: judge.solution.ask(question), material(lesson))
judge.module.namespace["observe"] = watched(judge.observer.observe)
judge.context.observe_learner = judge.module.namespace["observe"]
total = collections.Counter()
for name in options.exercises or judge.module.checks:
    check = judge.module.checks[name]
    said = judge.check(name)
    if said["share"] != 1:  # what it needs of a notebook is not here
        print(f"{name}: not counted. {said['message']}", flush=True)
        continue
    half = check.points / 2 if check.others else check.points
    for part, names in ((half, check.essential), (check.points - half, check.others)):
        for one in names:
            on, points = rests_on(read[name, one]), part / len(names)
            total[on] += points
            facts = ", ".join(sorted({fact for fact, *_ in read[name, one]}))
            print(f"{name:24}{one:32}{points:5.2f}  {on:20}{facts}", flush=True)
print({on: round(points, 2) for on, points in total.items()})
