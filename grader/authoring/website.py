"""Builds the course's website from docs/, the lessons and the docstrings, by Sphinx."""

from __future__ import annotations

import base64
import copy
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from PIL import Image

from grader import ROOT, CourseError
from grader.atomic_files import write
from grader.authoring.lesson import repository_address
from grader.authoring.release import dumps, lesson_paths, nbgrader_metadata
from grader.authoring.translation import languages

# A lesson's released notebooks lie here, and its pages too; the language of each.
FOLDERS = {"lessons": "en"} | {f"lessons/{name}": name for name in languages()}
TEXTS = {  # on the pages, in each language
    "en": {
        "name": "English",
        "lessons": "Lessons",
        "colab": "Open in Colab",
        "download": "Download notebook",
        "solved": "Solved notebook",
        "setup": "Show the set-up",
        "scorecard": "Show the scorecard's code",
    },
    "ko": {
        "name": "한국어",
        "lessons": "한국어 (Korean)",
        "colab": "Colab에서 열기",
        "download": "노트북 내려받기",
        "solved": "풀이 노트북",
        "setup": "준비 코드 보기",
        "scorecard": "점수표 코드 보기",
    },
}
BADGE = re.compile(r"\[!\[[^]]*\]\([^)]*\)\]\((https://colab\.[^)]*)\)")
EXTRA = "_extra"  # what the site holds as it is
LISTS = "_lessons.md"  # the lists of lessons, which index.md includes
PICTURES = "pictures"
# Documents stay until the end: collections would take a quarter of its time.
SPHINX = """\
import gc, sys
from sphinx.cmd.build import main
gc.set_threshold(100_000)
sys.exit(main())
"""
OURS = ".nojekyll"  # has GitHub Pages serve _static/; what lacks it is never replaced


class SiteError(CourseError):
    """The site cannot be built; the text says why."""


def build_site(to: Path | None = None) -> Path:
    """Writes the site into `to`, by default _site/; returns that folder.

    Nothing is run: what the lessons' cells print and draw is in the solved notebooks.
    An earlier site is replaced once the new one is whole.

    Raises:
        SiteError: Sphinx warns (of a link that leads nowhere, say), or `to` holds
            something else than a site.
    """
    import sphinx  # noqa: F401  before anything is written: only the site needs it

    to = (to or ROOT / "_site").resolve()
    if to.is_file() or (to.exists() and any(to.iterdir()) and not (to / OURS).exists()):
        raise SiteError(
            f"{to} holds something else than a site. Choose another folder."
        )
    with tempfile.TemporaryDirectory() as folder:
        sources, made = Path(folder, "docs"), Path(folder, "site")
        shutil.copytree(ROOT / "docs", sources)
        comparison = ROOT / "tests" / "end_to_end" / "hostile" / "COMPARISON.md"
        shutil.copy(comparison, sources / "cheats.md")
        write_lessons(sources, ROOT)
        run_sphinx(sources, made)
        shutil.rmtree(to, ignore_errors=True)
        shutil.move(made, to)
    return to


def run_sphinx(sources: Path, made: Path) -> None:
    """Makes HTML of `sources` in a process of its own; warnings are errors."""
    command = [sys.executable, "-c", SPHINX, "--quiet", "--fail-on-warning"]
    command += ["--doctree-dir", str(made.with_name("doctrees"))]
    modules = os.pathsep.join([str(ROOT), str(ROOT / "lessons")])
    env = os.environ | {"PYTHONPATH": modules, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [*command, str(sources), str(made)], env=env, capture_output=True, text=True
    )
    if run.returncode:
        said = run.stderr.replace(str(sources), "docs").strip()
        raise SiteError(f"Sphinx did not make the site:\n{said}")


def write_lessons(sources: Path, root: Path) -> None:
    """Writes a page per lesson and language, and the files that it links to."""
    extra, lists = sources / EXTRA, []
    write(extra / OURS, "")
    repository = repository_address(root)
    for folder, language in FOLDERS.items():
        texts, names = TEXTS[language], []
        for source in lesson_paths(root=root):
            path = root / folder / f"{source.stem}.ipynb"
            if not path.is_file():
                continue
            names.append(f"{folder}/{source.stem}")
            text = path.read_text(encoding="utf-8")
            write(extra / folder / path.name, text)
            made = page(
                nbformat.reads(text, as_version=4),
                nbformat.read(source.with_suffix(".ipynb"), as_version=4),
                links_of(source.stem, folder, repository, root),
                extra / folder / PICTURES,
                texts,
            )
            write(sources / folder / path.name, dumps(made))
        if names:
            lines = ["```{toctree}", f":caption: {texts['lessons']}", ":maxdepth: 1"]
            lines += ["", *names, "```"]
            lists.append("\n".join(lines))
    write(sources / LISTS, "\n\n".join(lists) + "\n")


def page(
    released: NotebookNode,
    solved: NotebookNode,
    links: str,
    pictures: Path,
    texts: dict[str, str],
) -> NotebookNode:
    """Makes a lesson's page: the released cells, the solved demonstrations' outputs.

    Exercises hold their stubs; the cards of our solutions are not shown. Set-up and
    scorecard are folded. `links` take the badge's place; the drawn pictures are written
    into the folder `pictures`.
    """
    made = copy.deepcopy(released)
    outputs = {cell.id: cell.get("outputs", []) for cell in solved.cells}
    for cell in made.cells:
        if cell.cell_type != "code":
            cell.source = BADGE.sub(
                lambda badge: links.replace("COLAB", badge[1]), cell.source
            )
            continue
        kind = kind_of(cell, texts)
        cell.metadata = NotebookNode(tags=[kind])
        if kind in texts:
            cell.metadata.tags.append("hide-input")
            cell.metadata.mystnb = {"code_prompt_show": texts[kind]}
        if kind == "demonstration":
            cell.outputs = list(shown(cell, outputs.get(cell.id, []), pictures))
    return made


def kind_of(cell: NotebookNode, texts: dict[str, str]) -> str:
    """Names what a code cell is for; the kinds in `texts` are folded."""
    if nbgrader_metadata(cell).get("solution"):
        return "exercise"
    if nbgrader_metadata(cell).get("grade"):
        return "check"
    name = cell.id.partition("-")[0]
    return name if name in texts else "demonstration"


def shown(
    cell: NotebookNode, outputs: list[NotebookNode], folder: Path
) -> Iterator[NotebookNode]:
    """Yields a cell's outputs, each picture as a file with a text alternative."""
    drawn = 0
    for output in outputs:
        if "image/png" not in output.get("data", {}):
            yield output
            continue
        data = base64.b64decode(output.data["image/png"])
        drawn += 1
        name = f"{cell.id}-{drawn}.png"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        with Image.open(io.BytesIO(data)) as picture:
            size = f'width="{picture.width}" height="{picture.height}"'
            size += f' style="min-width: min(36rem, {picture.width}px)"'
        alt = html.escape(output.metadata["image/png"]["alt"])
        image = f'<img src="{PICTURES}/{name}" alt="{alt}" {size}>'
        link = f'<a class="picture" href="{PICTURES}/{name}">{image}</a>'
        yield nbformat.v4.new_output("display_data", {"text/html": link})


def links_of(name: str, folder: str, repository: str, root: Path) -> str:
    """Writes the links at the top of a lesson; COLAB stands for Colab's address."""
    texts = TEXTS[FOLDERS[folder]]
    solved = f"{repository}/blob/main/solutions/{name}.ipynb"
    links = [
        f'<a href="COLAB">{texts["colab"]}</a>',
        f'<a href="{name}.ipynb" download>{texts["download"]}</a>',
        f'<a href="{solved}">{texts["solved"]}</a>',
    ]
    for other, language in FOLDERS.items():
        if other != folder and (root / other / f"{name}.ipynb").is_file():
            path = os.path.relpath(f"{other}/{name}.html", folder).replace(os.sep, "/")
            spoken = f'lang="{language}" hreflang="{language}"'
            links.append(f'<a href="{path}" {spoken}>{TEXTS[language]["name"]}</a>')
    return f'<p class="lesson-links">{" ".join(links)}</p>'
