"""Writes what a check found out as a card: HTML in a notebook, else text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .i18n import columns, padded, translated, wrapped
from .outcomes import BROKEN, FAILS, HOLDS, LATER, ON_EXAMPLES, UNTRIED, Verdict

WIDTH = 72
LABELS = 12  # columns of "expected" and its like
MARKS = {HOLDS: "✓", FAILS: "✗", UNTRIED: "-", LATER: "…", BROKEN: "?"}
# Each has a contrast of 4 to white and to black.
COLOURS = dict.fromkeys(MARKS, "#767e88") | {HOLDS: "#238a43", FAILS: "#d13c55"}
SPOKEN = {HOLDS: "holds", FAILS: "fails", UNTRIED: "not tried", LATER: "later"}
SPOKEN[BROKEN] = "the check could not run"
PICTURE, MAX_PARTS = 150, 64  # pixels and parts of an array's layout
FAINT = "opacity:.75"
Parts = Sequence[tuple[int, Sequence[tuple[int, int]]]]
CODE = ("called", "seen", "expected", "where", "again")


class Score:
    """The value of a check's cell: its text is the points, its HTML the card.

    nbgrader reads the text as partial credit.
    """

    def __init__(self, points: float, card: str):
        self.points, self.card = points, card

    def __float__(self) -> float:
        return float(self.points)

    def __repr__(self) -> str:
        return f"{self.points:g}"

    def _repr_html_(self) -> str:
        return self.card


def worth(verdict: Verdict, points: float, is_bonus: bool) -> str:
    """Writes what an exercise got: "2.5 of 3 points", or "" where there are none."""
    if not points:
        return ""
    got = f"{round(points * verdict.share, 2):g}"
    if any(statement.standing == LATER for statement in verdict.statements):
        got = translated(f"up to {got}")
    text = f"{got} of {points:g} points"
    if is_bonus:
        text = f"{got} of {points:g} bonus points"
    elif verdict.outcome == ON_EXAMPLES:
        text = f"{got} of {points:g} points so far"
    elif points == 1:
        text = f"{got} of {points:g} point"
    return translated(text)


def in_parts(points: float, bonus: float, most: float) -> tuple[float, float]:
    """Splits points that include `bonus` into those up to `most` and the others."""
    own = min(points - min(bonus, points), most)
    return round(own, 2), round(points - own, 2)


def total(points: float, bonus: float, most: float) -> str:
    """Writes a sum of points: "13.5 of 17", or "17 of 17 and 4 bonus points"."""
    own, beyond = in_parts(points, bonus, most)
    text = f"{own:g} of {most:g}"
    if beyond:
        text = f"{own:g} of {most:g} and {beyond:g} bonus points"
    if beyond == 1:
        text = f"{own:g} of {most:g} and 1 bonus point"
    return translated(text)


def right_column(statement: Any, verdict: Verdict, points: float) -> str:
    """Writes what a statement is worth: "essential", "0.5" or "0 of 0.5"."""
    if statement.is_essential:
        return translated("essential")
    share = f"{round(points * statement.share, 2):g}"
    if statement.standing not in (HOLDS, LATER) or lacks_essential(verdict):
        return translated(f"0 of {share}")
    return share


def lacks_essential(verdict: Verdict) -> bool:
    """Tells whether what holds earns nothing, since an essential statement fails."""
    standings = {
        (statement.is_essential, statement.standing) for statement in verdict.statements
    }
    return {(True, FAILS), (False, HOLDS)} <= standings


def rows_of(headline: str, rows: Iterable[Sequence[str]]) -> list[tuple[str, str, str]]:
    """Lists (name, label, text) of what a failure shows, in the learner's language."""
    shown = [("", "", translated(headline))] if headline else []
    for name, text in rows:
        lines = map(translated, text.splitlines())
        shown.append((name, translated(name), "\n".join(lines)))
    return shown


def text_card(verdict: Verdict, *, points: float, is_bonus: bool = False) -> str:
    right = worth(verdict, points, is_bonus)
    lines = [spread(f"{verdict.exercise}  {translated(verdict.outcome)}", right)]
    for statement in verdict.statements:
        name = f"{translated(statement.name)}{remark(statement)}"
        left = f"{MARKS[statement.standing]} {name}"
        lines.append(spread(left, right_column(statement, verdict, points)))
        if statement.rows:
            lines += block_of(statement.headline, statement.rows)
    if not verdict.statements:
        lines += block_of(verdict.headline, verdict.rows)
    if closing := closing_line(verdict):
        lines += wrapped(closing, WIDTH)
    return "\n".join(lines)


def remark(statement: Any) -> str:
    """Says behind a statement's name why nothing is shown below it, or ""."""
    return (
        f" ({translated(statement.headline)})"
        if statement.headline and not statement.rows
        else ""
    )


def block_of(headline: str, rows: Iterable[Sequence[str]]) -> list[str]:
    lines = []
    for name, label, text in rows_of(headline, rows):
        start = f"    {padded(label, LABELS)}" if name else "    "
        for line in text.splitlines() or [""]:
            lines += wrapped(start + line, WIDTH + 16, " " * len(start)) or [start]
            start = " " * (4 + LABELS)
    return lines


def spread(left: str, right: str) -> str:
    """Writes two texts at the two ends of a line."""
    return padded(left, max(columns(left), WIDTH - columns(right)) + 2) + right


def closing_line(verdict: Verdict) -> str:
    """Says why what holds earns nothing, or what is tried when the work is graded."""
    if lacks_essential(verdict):
        text = "There are points only when every essential statement holds."
        return translated(text)
    if verdict.outcome != ON_EXAMPLES:
        return ""
    count = sum(statement.standing == LATER for statement in verdict.statements)
    if not count:
        return translated("Other cases are tried when your work is graded.")
    if count == 1:
        return translated("One more statement is tried when your work is graded.")
    return translated(f"{count} more statements are tried when your work is graded.")


def html_card(
    verdict: Verdict,
    *,
    points: float,
    is_bonus: bool = False,
    solution: str = "",
    heading: bool = True,
) -> str:
    """Writes a card as HTML that needs no style sheet, in light and in dark.

    Args:
        verdict: what the check found out.
        points: what the exercise is worth.
        is_bonus: whether these are bonus points.
        solution: the source of our solution, which is folded, or "".
        heading: whether the exercise's name and outcome are above the statements.
    """
    outcome = escape(translated(verdict.outcome))
    right = escape(worth(verdict, points, is_bonus))
    exercise = escape(verdict.exercise)
    inside = ""
    if heading:
        inside += (
            '<div style="display:flex;gap:.8rem;padding:.45rem .8rem;'
            'border-bottom:1px solid #8884;background:#8881">'
            f"<code><b>{exercise}</b></code><span>{outcome}</span>"
            f'<b style="margin-left:auto">{right}</b></div>'
        )
    items = "".join(
        item_of(statement, verdict, points) for statement in verdict.statements
    )
    items = items or f"<li>{details_of(verdict.headline, verdict.rows)}</li>"
    style = "list-style:none;margin:0;padding:.3rem .8rem .5rem"
    inside += f'<ul style="{style}">{items}</ul>'
    below = [escape(closing_line(verdict))]
    if solution:
        summary = escape(translated("Our solution"))
        below.append(
            f'<details><summary style="cursor:pointer">{summary}</summary>'
            f'<pre style="margin:.4rem 0"><code>{escape(solution.strip())}</code>'
            "</pre></details>"
        )
    style = "padding:.35rem .8rem;border-top:1px solid #8884;font-size:.93em"
    inside += "".join(f'<div style="{style}">{text}</div>' for text in below if text)
    return (
        f'<div role="group" aria-label="{exercise}: {outcome}, {right}" '
        'style="border:1px solid #8884;border-radius:6px;max-width:48rem;'
        f'margin:.3rem 0;line-height:1.45">{inside}</div>'
    )


def item_of(statement: Any, verdict: Verdict, points: float) -> str:
    style = f"flex:0 0 1.5em;font-weight:700;color:{COLOURS[statement.standing]}"
    mark = (
        f'<span style="{style}" aria-hidden="true">{MARKS[statement.standing]}</span>'
    )
    spoken = escape(translated(SPOKEN[statement.standing]))
    spoken = f'<span style="position:absolute;left:-9999px">{spoken}: </span>'
    name = translated(statement.name)
    name = escape(name[:1].upper() + name[1:])
    name = f"<b>{name}</b>" if statement.is_essential else name
    if said := remark(statement):
        name += f'<span style="{FAINT}">{escape(said)}</span>'
    style, right = (
        f"{FAINT};font-size:.9em;white-space:nowrap",
        right_column(statement, verdict, points),
    )
    right = f'<span style="{style}">{escape(right)}</span>'
    inside = ""
    if statement.rows:
        inside = details_of(statement.headline, statement.rows)
    if statement.layouts:
        inside += layouts_of(*statement.layouts)
    return (
        '<li style="position:relative;padding:.15rem 0;overflow:hidden">'
        f'<div style="display:flex">{mark}<span style="flex:1">{spoken}{name}</span>'
        f"{right}</div>{inside}</li>"
    )


def details_of(headline: str, rows: Iterable[Sequence[str]]) -> str:
    parts = []
    for name, label, text in rows_of(headline, rows):
        lines = "<br>".join(map(escape, text.splitlines()))
        if name in CODE:
            lines = f"<code>{lines}</code>"
        if not name:
            parts.append(f'<div style="margin:.1rem 0 .1rem 1.6em">{lines}</div>')
            continue
        parts.append(
            '<div style="display:flex;gap:.6rem;margin-left:1.6em;font-size:.93em">'
            f'<span style="flex:0 0 5.5em;{FAINT}">{escape(label)}</span>'
            f'<span style="overflow-wrap:anywhere">{lines}</span></div>'
        )
    return "".join(parts)


def layouts_of(shape: Sequence[int], seen: Parts, expected: Parts) -> str:
    """Draws which device holds which part of an array: as seen, and as expected."""
    pictures = ""
    for name, parts in (
        (translated("seen, by device"), seen),
        (translated("expected, by device"), expected),
    ):
        if not shape or len(parts) > MAX_PARTS:
            return ""
        pictures += (
            f'<figure style="margin:.3rem 0">{layout_picture(shape, parts, name)}'
            f'<figcaption style="font-size:.85em">{escape(name)}</figcaption></figure>'
        )
    style = "display:flex;flex-wrap:wrap;gap:1.6rem;margin-left:1.6em"
    return f'<div style="{style}">{pictures}</div>'


def layout_picture(shape: Sequence[int], parts: Parts, name: str) -> str:
    """Draws the parts of an array, by its first two axes, with their devices' numbers.

    An array of more axes is drawn by the two along which it is split.
    """

    def is_whole(axis):
        return all(tuple(index[axis]) == (0, shape[axis]) for _, index in parts)

    axes = sorted(range(len(shape)), key=is_whole)[:2]
    down, across = sorted(axes) if len(axes) == 2 else (axes[0], None)
    devices: dict[tuple, list[int]] = {}
    for device, index in sorted(parts):
        key = tuple(index[down]), tuple(index[across]) if across is not None else (0, 1)
        devices.setdefault(key, []).append(device)
    height, width = shape[down] or 1, (shape[across] or 1) if across is not None else 1
    cells = ""
    for ((top, bottom), (left, right)), numbers in devices.items():
        x, y = PICTURE * left / width, PICTURE * top / height
        w, h = PICTURE * (right - left) / width, PICTURE * (bottom - top) / height
        text = ", ".join(map(str, numbers))
        if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
            text = f"{numbers[0]}-{numbers[-1]}"
        cells += (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            'fill="currentColor" fill-opacity=".08" stroke="currentColor"/>'
            f'<text x="{x + w / 2:.1f}" y="{y + h / 2 + 4:.1f}" font-size="11" '
            f'text-anchor="middle" fill="currentColor">{escape(text)}</text>'
        )
    held = [f"{numbers}: {rows}, {cols}" for (rows, cols), numbers in devices.items()]
    label, size = escape(f"{name}: {'; '.join(held)}"), PICTURE + 2
    return (
        f'<svg role="img" aria-label="{label}" '
        f'width="{size}" height="{size}" viewBox="-1 -1 {size} {size}">{cells}</svg>'
    )
