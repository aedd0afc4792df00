"""A roofline and a timeline are drawn to scale, and described in words."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from coursekit.draw import bounds, draw_roofline, draw_timeline

CHIP = {"compute": 100.0, "memory": 10.0}


@pytest.fixture
def shown(monkeypatch):
    """Collects what is shown: the axes of each picture and its words."""
    found = []
    monkeypatch.setattr(bounds, "show", lambda f, alt: found.append((f.axes[0], alt)))
    yield found
    plt.close("all")


def test_a_roofline_has_a_line_for_each_layout_under_the_roof(shown):
    intensity = np.array([1.0, 5.0, 50.0])
    reached = {"one device": [10, 50, 100], "FSDP": [1, 5, 50]}
    draw_roofline(CHIP, intensity, reached, ["1", "2", "3"], "Roof")
    axes, alt = shown.pop()
    assert [list(line.get_ydata()) for line in axes.lines] == [*reached.values()][::-1]
    roof = axes.collections[0].get_paths()[0].vertices
    assert roof[:, 1].max() == 100 and [10, 100] in roof.tolist()
    assert alt == (
        "Roof: FLOP/s of a device, at 1, 2, 3: one device 1.0e+01, 5.0e+01, 1.0e+02; "
        "FSDP 1.0e+00, 5.0e+00, 5.0e+01."
    )


def test_a_timeline_has_a_row_for_each_part(shown):
    rows = {"link": [(0, 2, "1"), (2, 2, "2")], "products": [(1, 4.5, "all")]}
    draw_timeline(rows, "seconds", "Times")
    axes, alt = shown.pop()
    spans = [bar.get_paths()[0].get_extents().intervalx for bar in axes.collections]
    assert [tuple(span) for span in spans] == [(0, 2), (2, 4), (1, 5.5)]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["link", "products"]
    assert alt == "Times: seconds: link until 4.0, products until 5.5."
