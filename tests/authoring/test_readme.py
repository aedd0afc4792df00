"""Each README lists all lessons in order, and its pictures are those of today."""

import re

import jax
import nbformat
import pytest

from grader import ROOT
from grader.authoring.build import released_path
from grader.authoring.lesson import colab_badge, repository_address
from grader.authoring.translation import languages
from grader.lessons.release import lesson_paths, title
from tools.draw_pictures import digest, digest_in, pages, ring

# (file, the lessons' folder seen from it, language)
READMES = [("README.md", "lessons/", ""), ("lessons/README.md", "", "")]
for language in languages():
    READMES.append((f"README.{language}.md", f"lessons/{language}/", language))
    READMES.append((f"lessons/{language}/README.md", "", language))


@pytest.mark.parametrize(("readme", "folder", "language"), READMES)
def test_readme_lists_every_lesson_in_order_with_its_badge(readme, folder, language):
    wanted = []
    for source in lesson_paths():
        notebook = nbformat.read(released_path(source, language), as_version=4)
        link = f"[{title(notebook, source.stem)}]({folder}{source.stem}.ipynb)"
        badge = colab_badge(
            repository_address(), f"{language}/{source.stem}".lstrip("/")
        )
        wanted.append(f"- {link} {badge}")
    lines = (ROOT / readme).read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line.startswith("- [") and ".ipynb)" in line]
    write = "\n".join(["", f"Write these lines into {readme}:", *wanted])
    assert listed == wanted, write


def test_ring_is_animated_as_today():
    path = ROOT / "docs" / "planning" / "ring.svg"
    write = f"{path} is old: run `python tools/draw_pictures.py`."
    assert path.read_text(encoding="utf-8") == ring(), write


def test_card_is_what_the_check_says_today():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        made = pages()
    write = "The READMEs' card is old: run `python tools/draw_pictures.py`."
    assert {path: digest_in(path) for path in made} == {
        path: digest(page) for path, page in made.items()
    }, write


PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+\.(?:png|svg))\)')


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "docs/index.md"])
def test_page_opens_with_the_pictures_and_what_they_show(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    top, rest = re.split(r"(?m)^## |```\{include}", text, maxsplit=1)
    shown = [(ROOT / page).parent / (a or b) for a, b in PICTURE.findall(top)]
    shown += [ROOT / "docs" / name for name in re.findall(r"\{image} (\S+)", top)]
    folders = [ROOT / "docs" / name for name in ("pictures", "planning")]
    assert {*shown} == {path for folder in folders for path in folder.iterdir()}
    assert len(re.findall(r'alt="[^"]{40,}"|:alt: .{40,}|!\[[^]]{40,}]', top)) >= 3
    assert "make lab" in top
    words, _, _ = top.partition("make lab")  # for whom, and where to begin
    assert re.search("lesson 1|1강", words) and ".svg" not in words
    assert ".png" not in rest
