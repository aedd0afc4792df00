"""Makes untrusted pictures safe: decoded within limits, encoded afresh."""

from __future__ import annotations

import base64
import contextlib
import io
import warnings
from collections.abc import Iterator

from PIL import Image

FORMATS = ("PNG", "JPEG")
MAX_BYTES = 8_000_000
MAX_PIXELS = 16_000_000
MAX_WIDTH, MAX_HEIGHT = 1000, 2000
MAX_ENCODED = 400_000  # characters of base64


def safe_picture(data: bytes) -> str | None:
    """Returns a PNG or JPEG as a fresh PNG in base64, or None where it is no good.

    The size is read from the header, before anything is decoded. Nothing but pixels is
    kept: no text, no color profile, no further frames. A picture is scaled down to 1000
    pixels of width, and further until its encoding is small enough. Never raises.
    """
    try:
        with opened(data) as picture:
            mode = "RGBA" if picture.has_transparency_data else "RGB"
            decoded = picture.convert(mode)
        pixels = Image.frombytes(mode, decoded.size, decoded.tobytes())
        width, height = MAX_WIDTH, MAX_HEIGHT
        while True:
            pixels.thumbnail((width, height))
            file = io.BytesIO()
            pixels.save(file, "PNG")
            text = base64.b64encode(file.getvalue()).decode("ascii")
            if len(text) <= MAX_ENCODED:
                return text
            width, height = width // 2, height // 2
    except Exception:  # decoders raise many kinds for damaged files
        return None


def picture_size(text: str) -> tuple[int, int] | None:
    """Returns width and height of what `safe_picture` returned; None of all else."""
    try:
        if len(text) > MAX_ENCODED:
            return None
        with opened(base64.b64decode(text, validate=True)) as picture:
            fits = picture.width <= MAX_WIDTH and picture.height <= MAX_HEIGHT
            return picture.size if fits and picture.format == "PNG" else None
    except Exception:
        return None


@contextlib.contextmanager
def opened(data: bytes) -> Iterator[Image.Image]:
    """Reads a picture's header; Pillow's warning about its size becomes an error."""
    if len(data) > MAX_BYTES:
        raise ValueError("too many bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ValueError("too many pixels")
            yield picture
