"""Pictures of strangers, reduced: upright, on white, without metadata, and whatever their bytes are."""

import asyncio
import io
import random
import struct
import zlib

import pytest

from sojourn.pictures import reduced, reduced_in_turn

pytest.importorskip("PIL", reason="an environment from before Pillow was pinned")
from PIL import Image

ORIENTATION, GPS = 0x0112, 0x8825
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def bytes_of(picture: Image.Image, kind: str, **options: object) -> bytes:
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def opened(made: bytes | str) -> Image.Image:
    assert isinstance(made, bytes), made
    return Image.open(io.BytesIO(made))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_a_photo_is_upright_and_tells_no_place() -> None:
    """A reduced photo has the orientation in its pixels, and neither GPS nor other metadata."""
    about = Image.Exif()
    about[ORIENTATION], about[GPS] = 6, {1: "N", 2: (52.0, 31.0, 12.0)}
    photo = bytes_of(Image.new("RGB", (3_000, 1_000), "red"), "JPEG", exif=about)
    assert b"Exif" in photo
    small = opened(reduced(photo, 300))
    assert small.size == (100, 300)
    assert dict(small.getexif()) == {}


@pytest.mark.parametrize(
    ("picture", "kind", "color"),
    [
        (Image.new("RGBA", (200, 100), (0, 0, 0, 0)), "PNG", (255, 255, 255)),
        (Image.new("LA", (200, 100), (0, 0)), "PNG", (255, 255, 255)),
        (Image.new("I;16", (200, 100), 256 * 100), "PNG", (100, 100, 100)),
        (Image.new("CMYK", (200, 100), (0, 0, 0, 0)), "JPEG", (255, 255, 255)),
    ],
    ids=["transparent", "transparent gray", "16 bits", "CMYK"],
)
def test_colors_are_those_that_a_person_sees(picture: Image.Image, kind: str, color: tuple[int, ...]) -> None:
    """What is transparent is white, and 16 bits are not all too bright."""
    small = opened(reduced(bytes_of(picture, kind), 50))
    assert (small.size, small.getpixel((0, 0))) == ((50, 25), color)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_its_first_frame(kind: str) -> None:
    """Of each format that can be animated."""
    first, *more = (Image.new("RGB", (100, 100), color) for color in ("red", "blue", "lime"))
    small = opened(reduced(bytes_of(first, kind, save_all=True, append_images=more), 50))
    red, _, blue = small.getpixel((20, 20))
    assert red > 200
    assert blue < 50


def test_too_many_pixels_are_not_decoded() -> None:
    """A PNG of 50 kB with 50 million pixels, and one that says that it has more than Pillow opens."""
    head = struct.pack(">IIBBBBB", 7_000, 7_000, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(7_000 * 876), 9)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    assert len(bomb) < 50_000
    assert reduced(bomb, 100) == "it has 7000 x 7000 pixels, too many to reduce"
    huge = bomb.replace(chunk(b"IHDR", head), chunk(b"IHDR", struct.pack(">II", 1 << 30, 1 << 30) + head[8:]))
    assert reduced(huge, 100) == "it cannot be decoded"


def test_a_picture_that_its_decoder_holds_whole_has_fewer_pixels() -> None:
    """A WebP takes twenty bytes a pixel, and a JPEG of several scans ten. A JPEG of one scan is decoded in parts."""
    webp = bytes_of(Image.new("RGB", (9, 9)), "WEBP").replace(
        struct.pack("<HH", 9, 9), struct.pack("<HH", 4_000, 4_000)
    )
    assert reduced(webp, 100) == "it has 4000 x 4000 pixels, too many to reduce"
    whole = bytes_of(Image.new("L", (6_400, 6_400), 100), "JPEG")
    assert opened(reduced(whole, 100)).getpixel((9, 9)) == (100, 100, 100)
    again = whole[whole.rindex(b"\xff\xda") : -2]
    assert reduced(whole[:-2] + again + whole[-2:], 100) == "it has 6400 x 6400 pixels, too many to reduce"


def test_many_scans_are_not_decoded() -> None:
    """Each scan takes the time of a whole picture, and 500 of them fit in a few kB, wherever the end seems to be."""
    photo = bytes_of(Image.effect_noise((200, 100), 40).convert("RGB"), "JPEG", progressive=True)
    last, end = photo[photo.rindex(b"\xff\xda") : -2], photo[-2:]
    assert opened(reduced(photo[:-2] + last * 5 + end, 50)).size == (50, 25)
    hidden = b"\xff\xfe\0\x04" + end  # a comment that looks like the end
    for between in (b"", hidden, b"\xff\xff"):
        many = photo[:-2] + (between + last) * 500 + end
        assert reduced(many, 50) == "it has 510 scans, too many to reduce"


def test_what_stands_beside_a_photo_is_not_its_scan() -> None:
    """A camera's small picture before it, more pictures and a film after it hide no photo."""
    red = Image.new("RGB", (100, 100), "red")
    small, film = bytes_of(Image.new("RGB", (9, 9)), "JPEG") * 40, b"\xff\xda" * 5_000
    photo = bytes_of(red, "JPEG", exif=b"Exif\0\0" + small)
    several = bytes_of(red, "MPO", save_all=True, append_images=[Image.new("RGB", (100, 100))])
    for data in (photo + film, several + film):
        red_part, green, _ = opened(reduced(data, 50)).getpixel((20, 20))
        assert red_part > 200
        assert green < 50


async def test_pictures_wait_for_their_turn_on_the_event_loop() -> None:
    """However many wait, the threads of the event loop are free for other work."""
    picture = bytes_of(Image.effect_noise((1_500, 1_500), 40), "PNG", compress_level=1)
    waiting = [asyncio.create_task(reduced_in_turn(picture, 50)) for _ in range(40)]
    await asyncio.sleep(0)
    assert await asyncio.to_thread(str, 7) == "7"
    assert not waiting[-1].done()
    for task in waiting[1:]:
        task.cancel()
    assert opened(await waiting[0]).size == (50, 50)


def test_other_formats_are_not_decoded() -> None:
    """A PostScript file that is called a picture starts no interpreter, and a TIFF has too many kinds of content."""
    page = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n/a {} def\n%%EOF\n"
    for data in (page, bytes_of(Image.new("RGB", (9, 9)), "TIFF"), b"", b"GIF89a"):
        assert reduced(data, 100) == "it cannot be decoded"


@pytest.mark.filterwarnings("ignore")
def test_broken_bytes_are_no_error() -> None:
    """A decoder raises errors of many classes, such as a TypeError for broken Exif; none of them reaches a plan."""
    chance, about = random.Random(7), Image.Exif()
    about[ORIENTATION], about[GPS] = 6, {1: "N", 2: (52.0, 31.0, 12.0)}
    noise = Image.effect_noise((60, 40), 40).convert("RGB")
    whole = [bytes_of(noise, kind, **({"exif": about} if kind == "JPEG" else {})) for kind in FORMATS]
    for _ in range(1_500):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        made = reduced(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]), 30)
        assert isinstance(made, bytes) or made.startswith("it ")
