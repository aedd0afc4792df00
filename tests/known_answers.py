"""Lists the known answers, wrong and right ones, in `solutions/answers/`."""

from pathlib import Path

from grader.authoring.known_answers import read_answers

FOLDER = Path(__file__).resolve().parents[1] / "solutions" / "answers"


def known_answers(lesson="*", exercise="*", kind=None):
    """Lists the answers to the exercises of a lesson, or to one exercise."""
    return [
        answer
        for path in sorted(FOLDER.glob(f"{lesson}/{exercise}.py"))
        for answer in read_answers(path)
        if kind in (None, answer.kind)
    ]
