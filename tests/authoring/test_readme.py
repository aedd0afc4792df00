"""Each README lists all lessons in order; a picture in it is the one that is drawn."""

import nbformat
import pytest

from grader import ROOT
from grader.authoring.build import pictures, released_path
from grader.authoring.lesson import colab_badge, repository_address
from grader.authoring.release import lesson_paths, title
from grader.authoring.translation import languages

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
        badge = colab_badge(repository_address(), source.stem, language)
        wanted.append(f"- {link} {badge}")
    lines = (ROOT / readme).read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line.startswith("- [") and ".ipynb)" in line]
    write = "\n".join(["", f"Write these lines into {readme}:", *wanted])
    assert listed == wanted, write


def test_picture_is_the_one_that_the_solved_lesson_shows():
    [(path, drawn)] = pictures(ROOT).items()
    assert path.read_bytes() == drawn, f"{path} is old: run `python -m grader build`."
    assert f"](docs/pictures/{path.name})" in (ROOT / "README.md").read_text()
