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
    kept: no text, no colour profile, no further frames. A picture is scaled down to
    1000 pixels of width, and further until its encoding is small enough. Never raises.
    """
    try:
        with _bombs_are_errors():
            return _encoded(_pixels(data))
    except Exception:  # decoders raise many kinds for damaged files
        return None


def picture_size(text: str) -> tuple[int, int] | None:
    """Returns width and height of what `safe_picture` returned; None of all else."""
    try:
        if len(text) > MAX_ENCODED:
            return None
        with _bombs_are_errors():
            picture = _opened(base64.b64decode(text, validate=True))
    except Exception:
        return None
    fits = picture.width <= MAX_WIDTH and picture.height <= MAX_HEIGHT
    return picture.size if fits and picture.format == "PNG" else None


@contextlib.contextmanager
def _bombs_are_errors() -> Iterator[None]:
    """Makes errors of Pillow's warnings about sizes, and ignores its others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _opened(data: bytes) -> Image.Image:
    """Reads a picture's header."""
    if len(data) > MAX_BYTES:
        raise ValueError("too many bytes")
    picture = Image.open(io.BytesIO(data), formats=FORMATS)
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError("too many pixels")
    return picture


def _pixels(data: bytes) -> Image.Image:
    """Decodes a picture; returns its pixels alone."""
    picture = _opened(data)
    mode = "RGBA" if picture.has_transparency_data else "RGB"
    decoded = picture.convert(mode)
    return Image.frombytes(mode, decoded.size, decoded.tobytes())


def _encoded(pixels: Image.Image) -> str:
    """Encodes pixels as PNG in base64, as large as the limits allow."""
    width, height = MAX_WIDTH, MAX_HEIGHT
    while True:
        pixels.thumbnail((width, height))
        file = io.BytesIO()
        pixels.save(file, "PNG")
        text = base64.b64encode(file.getvalue()).decode("ascii")
        if len(text) <= MAX_ENCODED:
            return text
        width, height = width // 2, height // 2
