"""Writes the handbook's page on all commands, as `--help` has them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from grader import ROOT
from grader.__main__ import make_parser

PAGE = ROOT / "docs" / "handbook" / "commands.md"
HEAD = """\
# All commands and options

Each command prints the same with `--help`. `tools/commands_page.py` writes this page.
"""


def page() -> str:
    [commands] = subparsers(make_parser())
    sections = [HEAD]
    for name, parser in commands.choices.items():
        kinds = [one for found in subparsers(parser) for one in found.choices.items()]
        own = {f"{name} {kind}": one for kind, one in kinds} or {name: parser}
        sections += [section(words, one) for words, one in own.items()]
    return "\n".join(sections)


def subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse._SubParsersAction]:
    kind = argparse._SubParsersAction
    return (action for action in parser._actions if isinstance(action, kind))


def section(words: str, parser: argparse.ArgumentParser) -> str:
    """Writes what a command does, and a table of its arguments and options."""
    lines = [f"## {words}", "", parser.description, ""]
    actions = [one for one in parser._actions if one.dest != "help"]
    if actions:
        lines += ["| argument or option | meaning |", "|---|---|"]
    lines += [f"| `{shown(one)}` | {cell(one.help or '')} |" for one in actions]
    return "\n".join([*lines, ""] if actions else lines)


def shown(action: argparse.Action) -> str:
    """Names an argument or option with its values, as a usage line does."""
    choices = "{" + ",".join(map(str, action.choices or ())) + "}"
    value = action.metavar or (choices if action.choices else action.dest.upper())
    if not action.option_strings:
        several = {"*": f"[{value} ...]", "+": f"{value} [{value} ...]"}
        return several.get(action.nargs, value)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} {value}" + f" [{value} ...]" * (action.nargs == "+")


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
