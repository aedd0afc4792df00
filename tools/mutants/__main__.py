"""Grades wrong answers that rules make out of our solutions.

`python tools/mutants 02` grades those of lesson 2. It prints each mutant that passes
its check, which shows a hole in it, unless `equivalent.toml` says why that is right.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from catalog import key, read_mutants, right_by_contract, sampled
from rules import Mutant
from worker import Worker

from grader.lessons.release import lesson_paths

ALIVE, BROKEN, SAME = "right", "the check could not run", "no effect"


def main() -> int:
    """Prints which mutants pass; returns 1 if one does that is not in the list."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("lesson", nargs="?", default="", help="how its name begins")
    parser.add_argument("--exercise", help="one alone; it may start processes")
    parser.add_argument("--sample", type=int, help="so many, evenly spread")
    parser.add_argument("--list", action="store_true", help="counts per rule, too")
    options = parser.parse_args()
    began = time.monotonic()
    paths = [p for p in lesson_paths() if p.name.startswith(options.lesson)]
    made = {path: read_mutants(path, options.exercise) for path in paths}
    right = right_by_contract()
    chosen = sampled(made, options.sample)
    outcomes = graded(chosen)
    for path, mutants in chosen.items():
        print_lesson(path.stem, {m: outcomes[m] for m in mutants}, right)
    if options.list:
        print_rules(outcomes)
    print_entries(right, made, outcomes)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(outcomes)} mutants in {minutes:.1f} minutes")
    alive = (mutant for mutant, outcome in outcomes.items() if outcome == ALIVE)
    return int(any(key(vars(mutant)) not in right for mutant in alive))


def graded(chosen: dict[Path, list[Mutant]]) -> dict[Mutant, str]:
    """Grades all mutants, two lessons in parallel; returns the outcomes."""
    outcomes: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(2) as threads:
        # Most programs of a check are the same for each mutant.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        # The longest first, so that it is not the last to begin.
        queue = sorted(chosen.items(), key=lambda item: len(item[1]), reverse=True)
        for found in threads.map(lambda item: grade(*item), queue):
            outcomes |= found
    return outcomes


def grade(path: Path, mutants: Iterable[Mutant]) -> dict[Mutant, str]:
    worker, outcomes = Worker(path), {}
    try:
        for exercise, own in groupby(mutants, key=lambda mutant: mutant.exercise):
            own = list(own)
            for mutant in own:
                outcomes[mutant] = worker.outcome(exercise, mutant.source)
            # A mutant with lasting effects would make all later ones fail.
            if (outcome := worker.outcome(exercise, own[0].original)) != ALIVE:
                sys.exit(f"{exercise}: after its mutants, the solution is {outcome}")
    finally:
        worker.stop()
    return outcomes


def print_lesson(name: str, outcomes: dict[Mutant, str], right: dict) -> None:
    """Prints a lesson's counts, and each mutant that passes or breaks its check."""
    counts = Counter(outcomes.values())
    alive = [mutant for mutant, outcome in outcomes.items() if outcome == ALIVE]
    holes = [mutant for mutant in alive if key(vars(mutant)) not in right]
    others = {
        "right by the contract": len(alive) - len(holes),
        "without effect": counts[SAME],
        "broke the check": counts[BROKEN],
        "killed only by the time limit": counts["timed out"],
    }
    killed = len(outcomes) - len(alive) - counts[SAME] - counts[BROKEN]
    share = f"{killed / max(killed + len(holes), 1):.1%}"
    more = "".join(f", {count} {words}" for words, count in others.items() if count)
    print(f"{name}: {killed} killed, {len(holes)} alive ({share} killed){more}")
    for mutant in holes:
        print(f"  {mutant}")
    for mutant, outcome in outcomes.items():
        if outcome == BROKEN:
            print(f"  broke the check: {mutant}")


def print_rules(outcomes: dict[Mutant, str]) -> None:
    rules = dict.fromkeys(mutant.rule for mutant in outcomes)
    for rule in rules:
        counts = Counter(o for mutant, o in outcomes.items() if mutant.rule == rule)
        print(f"{rule}: " + ", ".join(f"{n} {o}" for o, n in counts.most_common()))


def print_entries(right: dict, made: dict, outcomes: dict[Mutant, str]) -> None:
    """Prints the entries of `equivalent.toml` that are stale or contradicted."""
    known = {key(vars(mutant)) for mutants in made.values() for mutant in mutants}
    exercises = {exercise for exercise, _, _ in known}
    for entry in right.keys() - known:
        if entry[0] in exercises:
            print("stale in equivalent.toml:", "  ".join(entry))
    for mutant, outcome in outcomes.items():
        if key(vars(mutant)) in right and outcome != ALIVE:
            print(f"right by equivalent.toml, but {outcome}: {mutant}")


if __name__ == "__main__":
    sys.exit(main())
