"""Builds the course's website from docs/, the lessons and the docstrings, by Sphinx."""

from __future__ import annotations

import argparse
import base64
import copy
import html
import io
import itertools
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
from grader.atomic_files import write, write_file
from grader.authoring.lesson import repository_address
from grader.authoring.translation import languages
from grader.lessons.release import dumps, lesson_paths, nbgrader_metadata

# The folders of the released notebooks and of their pages, and their languages.
FOLDERS = {"lessons": "en"} | {f"lessons/{name}": name for name in languages()}
TEXTS = {  # on the pages
    "name": {"en": "English", "ko": "한국어"},
    "lessons": {"en": "Lessons", "ko": "한국어 (Korean)"},
    "colab": {"en": "Open in Colab", "ko": "Colab에서 열기"},
    "download": {"en": "Download notebook", "ko": "노트북 내려받기"},
    "solved": {"en": "Solved notebook", "ko": "풀이 노트북"},
    "setup": {"en": "Show the set-up", "ko": "준비 코드 보기"},
    "scorecard": {"en": "Show the scorecard's code", "ko": "점수표 코드 보기"},
    "words": {"en": ">In words<", "ko": ">말로 보기<"},  # above a picture's description
}
BADGE = re.compile(r"\[!\[[^]]*\]\([^)]*\)\]\((https://colab\.[^)]*)\)")
EXTRA = "_extra"  # files of the site that Sphinx only copies
LISTS = "_lessons.md"  # the lists of lessons, which index.md includes
PICTURES = "pictures"
SITE_MARK = ".nojekyll"  # has GitHub Pages serve _static/; only a site is replaced


class SiteError(CourseError):
    """The site cannot be built."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.website", description=__doc__
    )
    parser.add_argument("--to", type=Path, help="the folder; default: _site/")
    try:
        print(f"wrote {build_site(parser.parse_args().to) / 'index.html'}")
    except SiteError as error:
        sys.exit(str(error))


def build_site(to: Path | None = None) -> Path:
    """Writes the site into `to`, by default _site/; returns that folder.

    Nothing is run: what the lessons' cells print and draw is in the solved notebooks.
    An earlier site is replaced once the new one is complete.

    Raises:
        SiteError: Sphinx warns (of a broken link, say), or `to` holds something else
            than a site.
    """
    import sphinx  # noqa: F401  before anything is written: only the site needs it

    to = (to or ROOT / "_site").resolve()
    if to.exists() and not (to / SITE_MARK).exists() and any(to.iterdir()):
        raise SiteError(
            f"{to} holds something else than a site. Choose another folder."
        )
    with tempfile.TemporaryDirectory() as folder:
        sources, made = Path(folder, "docs"), Path(folder, "site")
        shutil.copytree(ROOT / "docs", sources)
        comparison = ROOT / "tests" / "end_to_end" / "hostile" / "COMPARISON.md"
        shutil.copy(comparison, sources / "cheats.md")
        write_lessons(sources, ROOT)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning"]
        command += ["--doctree-dir", str(Path(folder, "doctrees"))]
        modules = os.pathsep.join([str(ROOT), str(ROOT / "lessons")])
        env = os.environ | {"PYTHONPATH": modules, "JAX_PLATFORMS": "cpu"}
        run = subprocess.run(
            [*command, str(sources), str(made)], env=env, capture_output=True, text=True
        )
        if run.returncode:
            said = run.stderr.replace(str(sources), "docs").strip()
            raise SiteError(f"Sphinx did not make the site:\n{said}")
        shutil.rmtree(to, ignore_errors=True)
        shutil.move(made, to)
    return to


def write_lessons(sources: Path, root: Path) -> None:
    """Writes a page per lesson and language, and the files that it links to."""
    extra, lists = sources / EXTRA, []
    write(extra / SITE_MARK, "")
    repository = repository_address(root)
    for folder, language in FOLDERS.items():
        caption = f":caption: {TEXTS['lessons'][language]}"
        lists += ["```{toctree}", caption, ":maxdepth: 1", ""]
        for source in lesson_paths(root=root):
            name = source.stem
            lists.append(f"{folder}/{name}")
            released = (root / folder / f"{name}.ipynb").read_text(encoding="utf-8")
            write(extra / folder / f"{name}.ipynb", released)
            made = page(
                nbformat.reads(released, as_version=4),
                nbformat.read(source.with_suffix(".ipynb"), as_version=4),
                links_of(name, folder, repository),
                extra / folder / PICTURES,
                language,
            )
            write(sources / folder / f"{name}.ipynb", dumps(made))
        lists += ["```", ""]
    write(sources / LISTS, "\n".join(lists))


def page(
    released: NotebookNode,
    solved: NotebookNode,
    links: str,
    pictures: Path,
    language: str,
) -> NotebookNode:
    """Makes a lesson's page: the released cells, the solved demonstrations' outputs.

    Exercises hold their stubs; the cards of our solutions are not shown. Set-up and
    scorecard are folded. `links` replace the badge; the pictures are written into the
    folder `pictures`.
    """
    made = copy.deepcopy(released)
    outputs = {cell.id: cell.get("outputs", []) for cell in solved.cells}
    for cell in made.cells:
        if cell.cell_type != "code":
            cell.source = BADGE.sub(links.replace("COLAB", r"\1"), cell.source)
            continue
        facts, kind = nbgrader_metadata(cell), "demonstration"
        if facts.get("solution"):
            kind = "exercise"
        elif facts.get("grade"):
            kind = "check"
        elif cell.id in ("setup", "scorecard"):
            kind = cell.id
        cell.metadata = NotebookNode(tags=[kind])
        if kind in TEXTS:
            cell.metadata.tags.append("hide-input")
            cell.metadata.mystnb = {"code_prompt_show": TEXTS[kind][language]}
        if kind == "demonstration":
            cell.outputs = list(shown(cell.id, outputs.get(cell.id, []), pictures))
            for output in cell.outputs:
                if text := output.get("data", {}).get("text/html"):
                    words = TEXTS["words"]["en"], TEXTS["words"][language]
                    output.data["text/html"] = text.replace(*words)
    return made


def shown(
    name: str, outputs: list[NotebookNode], folder: Path
) -> Iterator[NotebookNode]:
    """Yields a cell's outputs, each picture as a file with a text alternative."""
    numbers = itertools.count(1)
    for output in outputs:
        if "image/png" not in output.get("data", {}):
            yield output
            continue
        file = f"{name}-{next(numbers)}.png"
        data = base64.b64decode(output.data["image/png"])
        write_file(folder / file, data)
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
        alt = html.escape(output.metadata["image/png"]["alt"])
        image = (
            f'<img src="{PICTURES}/{file}" alt="{alt}" width="{width}" '
            f'height="{height}" style="min-width: min(36rem, {width}px)">'
        )
        link = f'<a class="picture" href="{PICTURES}/{file}">{image}</a>'
        yield nbformat.v4.new_output("display_data", {"text/html": link})


def links_of(name: str, folder: str, repository: str) -> str:
    """Writes the links at the top of a lesson; COLAB stands for Colab's address."""
    texts = {key: texts[FOLDERS[folder]] for key, texts in TEXTS.items()}
    solved = f"{repository}/blob/main/solutions/{name}.ipynb"
    links = [
        f'<a href="COLAB">{texts["colab"]}</a>',
        f'<a href="{name}.ipynb" download>{texts["download"]}</a>',
        f'<a href="{solved}">{texts["solved"]}</a>',
    ]
    for other, language in FOLDERS.items():
        if other != folder:
            path = os.path.relpath(f"{other}/{name}.html", folder)
            spoken = f'lang="{language}" hreflang="{language}"'
            links.append(f'<a href="{path}" {spoken}>{TEXTS["name"][language]}</a>')
    return f'<p class="lesson-links">{" ".join(links)}</p>'


if __name__ == "__main__":
    main()
