"""An untrusted picture enters a page as fresh pixels, or not at all."""

import base64
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile
from PIL.PngImagePlugin import PngInfo

from grader.submissions.pictures import MAX_ENCODED, picture_size, safe_picture


def encoded(picture, kind="PNG", **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def plain(width=40, height=30, mode="RGB", color=(200, 30, 60)):
    return Image.new(mode, (width, height), color)


def decoded(text):
    picture = Image.open(io.BytesIO(base64.b64decode(text, validate=True)))
    picture.load()
    return picture


def chunk(name, data):
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def claiming(width, height):
    """A PNG of a few bytes whose header claims a size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 1000)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def with_text_bomb():
    whole = encoded(plain())
    bomb = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"\0" * 200_000_000, 1))
    return whole[:33] + bomb + whole[33:]


def test_png_keeps_its_pixels():
    picture = plain()
    picture.putpixel((3, 4), (1, 2, 3))
    assert decoded(safe_picture(encoded(picture))).tobytes() == picture.tobytes()


def test_jpeg_becomes_png():
    found = decoded(safe_picture(encoded(plain(), "JPEG")))
    assert (found.format, found.size) == ("PNG", (40, 30))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_every_kind_of_pixel_is_read(mode):
    kind = "JPEG" if mode == "CMYK" else "PNG"
    found = decoded(safe_picture(encoded(Image.new(mode, (5, 5)), kind)))
    assert found.mode == ("RGBA" if mode in ("LA", "RGBA") else "RGB")


def test_transparency_of_a_palette_stays():
    palette = Image.new("P", (5, 5))
    found = decoded(safe_picture(encoded(palette, transparency=0)))
    assert found.getpixel((0, 0))[3] == 0


def test_nothing_but_pixels_is_kept():
    texts = PngInfo()
    texts.add_text("Author", "Ada <script>alert(1)</script>")
    texts.add_itxt("XML:com.adobe.xmp", "<x onload=alert(1)>", zip=True)
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    data = encoded(
        plain(), pnginfo=texts, exif=exif, icc_profile=b"p" * 200, dpi=(9, 9)
    )
    fresh = base64.b64decode(safe_picture(data + b"<script>alert(1)</script>"))
    for part in (b"script", b"Author", b"onload", b"home", b"iCCP", b"eXIf", b"pHYs"):
        assert part not in fresh
    assert fresh.endswith(b"IEND\xaeB`\x82")
    assert decoded(safe_picture(data)).info == {}


def test_animation_becomes_one_picture():
    frames = encoded(plain(), save_all=True, append_images=[plain(color="blue")])
    fresh = base64.b64decode(safe_picture(frames))
    assert b"acTL" not in fresh


def test_wide_picture_is_scaled_to_the_page():
    assert decoded(safe_picture(encoded(plain(4000, 1000)))).size == (1000, 250)


def test_tall_picture_does_not_make_an_endless_page():
    assert decoded(safe_picture(encoded(plain(10, 500_000)))).height <= 2000


def test_picture_that_compresses_badly_becomes_smaller():
    noise = np.random.default_rng(0).integers(0, 256, (1500, 1500, 3), np.uint8)
    text = safe_picture(encoded(Image.fromarray(noise)))
    assert len(text) <= MAX_ENCODED
    assert decoded(text).width >= 250


BAD = {
    "nothing": b"",
    "text": b"not a picture",
    "HTML": b"<html><script>alert(1)</script></html>",
    "HTML behind a PNG's signature": b"\x89PNG\r\n\x1a\n<script>alert(1)</script>",
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    "GIF": encoded(plain(), "GIF"),
    "BMP": encoded(plain(), "BMP"),
    "TIFF": encoded(plain(), "TIFF"),
    "WebP": encoded(plain(), "WEBP"),
    "half a PNG": encoded(plain(500, 500))[:200],
    "too many bytes": encoded(plain()) + b"\0" * 8_000_001,
    "17 megapixels": claiming(4250, 4000),
    "100 megapixels": claiming(10_000, 10_000),
    "bomb": claiming(100_000, 100_000),
    "bomb, overflowing": claiming(2**31 - 1, 2**31 - 1),
    "no size": claiming(0, 0),
    "text that unpacks to 200 MB": with_text_bomb(),
    "no bytes at all": None,
    "str": "text",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_all_else_is_refused_without_an_error(data):
    assert safe_picture(data) is None


def test_header_is_enough_to_refuse(monkeypatch):
    decodings = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda p: decodings.append(p))
    assert safe_picture(claiming(4250, 4000)) is None
    assert not decodings
    safe_picture(claiming(40, 40))
    assert decodings


def test_size_is_read_of_fresh_pictures_alone():
    assert picture_size(safe_picture(encoded(plain(40, 30)))) == (40, 30)
    for data in filter(lambda data: isinstance(data, bytes), BAD.values()):
        if data is not BAD["half a PNG"]:
            assert picture_size(base64.b64encode(data).decode()) is None
    jpeg = base64.b64encode(encoded(plain(), "JPEG")).decode()
    wide = base64.b64encode(encoded(plain(1001, 1))).decode()
    bad = (jpeg, wide, "", "!", "a\nb", '" onload="alert(1)', "ä", None, "A" * 10**6)
    assert [picture_size(text) for text in bad] == [None] * len(bad)
