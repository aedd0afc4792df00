"""Draws the pictures of the READMEs, in docs/pictures/ and docs/planning/.

A plan is that of the example in docs/planning.md, and a ring is an animation. A card
comes from Chromium, light and dark: right values, computed on one device. Each card
carries a digest of the page that it shows, so that a test notices without a browser
when what the check says has changed.
"""

import contextlib
import hashlib
import io
import sys
from pathlib import Path
from unittest import mock

import jax
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("tests/lessons", "tests", "lessons", "")]

from coursekit import draw, notebook, setup
from coursekit.context import current_context

LESSON, EXERCISE, ANSWER = "01_pmap_spmd", "make_parallel_predict", "one big product"
FOLDER = ROOT / "docs" / "pictures"
PLANS = ROOT / "docs" / "planning"
GROUNDS = {"light": ("#ffffff", "#1f2328"), "dark": ("#0d1117", "#f0f6fc")}
WIDTH = 660  # pixels, of which a picture has two by two
PAGE = """\
<!doctype html><meta charset="utf-8">
<style>
  body {{ margin: 0; padding: 1px; background: {ground}; color: {text};
    font: 14px system-ui, sans-serif; color-scheme: {mode}; }}
  code {{ font: 1em monospace; }}
</style>
{card}
"""


def pages():
    """Runs the check, as a lesson does; makes a page of its card by picture's path."""
    from known_answers import known_answers
    from solved_lesson import Lesson, run

    [answer] = [a for a in known_answers(LESSON, EXERCISE) if a.name == ANSWER]
    with contextlib.redirect_stdout(io.StringIO()):  # the card as text
        lesson = Lesson(ROOT / "solutions" / f"{LESSON}.py")
        run(answer.source, f"<{answer}>", lesson.namespace)
        with (
            mock.patch.object(current_context(), "lesson", LESSON),
            mock.patch.object(notebook, "namespace", lambda: lesson.namespace),
        ):
            card = notebook.check(EXERCISE)._repr_html_()
    return {
        FOLDER / f"card-{mode}.png": PAGE.format(
            mode=mode, ground=ground, text=text, card=card
        )
        for mode, (ground, text) in GROUNDS.items()
    }


def ring():
    """Animates a ring that passes blocks on until each device has seen all."""
    size = 8
    pairs = [(device, (device + 1) % size) for device in range(size)]

    def pass_on(block):
        for _ in range(size - 1):
            block = jax.lax.ppermute(block, "i", pairs)
        return block

    mesh = jax.make_mesh((size,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = {"in_specs": jax.P("i"), "out_specs": jax.P("i")}
    f = jax.shard_map(pass_on, mesh=mesh, **specs)
    return draw.animate(f, np.arange(size), title="A ring").svg


def plan():
    """Plans the example of docs/planning.md, and draws it: PNG."""
    text = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    example = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(text.split("```python\n")[1].split("```")[0], example)
    draw.draw_plan(example["found"])
    picture = io.BytesIO()
    plt.savefig(picture, dpi=110)
    return picture.getvalue()


def digest(page):
    return hashlib.sha256(page.encode()).hexdigest()


def digest_in(path):
    """Reads the digest of the page that a picture shows, or ""."""
    with Image.open(path) as picture:
        return picture.info.get("page", "")


def main():
    from servers import browser_page

    (PLANS / "plan.png").write_bytes(plan())
    (PLANS / "ring.svg").write_text(ring(), encoding="utf-8")
    with browser_page(width=WIDTH, scale=2) as browser:
        for path, page in pages().items():
            browser.set_content(page)
            drawn = Image.open(io.BytesIO(browser.locator("body").screenshot()))
            facts = PngInfo()
            facts.add_text("page", digest(page))
            drawn.convert("RGB").save(path, pnginfo=facts, optimize=True)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    setup.with_devices(8)
    main()
