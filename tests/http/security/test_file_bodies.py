"""Bodies with the data of files: the data goes to disk, and the rest is the same JSON."""

import asyncio
import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.http.problems import Problem
from sojourn.http.security import file_bodies
from sojourn.http.security.file_bodies import FileMark, FileReader

PATHS = (("messages", "*", "parts", "*", "url"), ("messages", "*", "data"))


def reader(**limits: int) -> FileReader:
    return FileReader(PATHS, **{"max_bytes": 100_000, "max_file_bytes": 50_000, **limits})


def read(body: bytes, sizes: list[int], **limits: int) -> tuple[object, list[bytes], FileReader]:
    """What is left of a body that arrives in pieces, and its files."""
    found = reader(**limits)

    async def feed() -> list[bytes]:
        at, count = 0, 0
        while at < len(body):
            size = sizes[count % len(sizes)]
            await found.feed(body[at : at + size])
            at, count = at + size, count + 1
        return [b"".join([each async for each in found.files.chunks(name)]) for name in found.files._places]

    try:
        files = asyncio.run(feed())
        return json.loads(found.finish()), files, found
    finally:
        found.files.close()


TEXT = st.text(max_size=12)
VALUE = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(
    VALUE, st.binary(min_size=1, max_size=300), TEXT, st.lists(st.integers(1, 700), min_size=1), st.booleans()
)
def test_the_rest_of_a_body_is_the_same_json(other, content, name, sizes, is_ascii):
    """However a body is cut and escaped, its file comes out, and all else is as it was sent."""
    content *= 4_000 // len(content) + 1
    data = base64.b64encode(content).decode()
    sent = {
        "other": other,
        "messages": [
            {"data": "short", name: other},
            {"parts": [other, {"url": f"data:image/png;base64,{data}", "more": [data, {"url": data}]}]},
        ],
        "data": data,
    }
    text = json.dumps(sent, ensure_ascii=is_ascii).replace("/", "\\/").encode(errors="surrogatepass")
    rest, files, _ = read(text, sizes)
    mark = FileMark(hashlib.sha256(content).hexdigest(), len(content))
    sent["messages"][1]["parts"][1]["url"] = f"data:image/png;base64,{mark.text}"
    assert rest == json.loads(json.dumps(sent))
    assert files == [content]
    assert FileMark.parse(mark.text) == mark


def body_of(*data: str) -> bytes:
    return json.dumps({"messages": [{"data": each} for each in data]}).encode()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_file_that_comes_twice_is_kept_once():
    """A chat sends its earlier files again."""
    one, two = b"a" * 9_000, b"b" * 9_000
    rest, files, _ = read(body_of(*map(encoded, (one, two, one, two))), [500])
    assert files == [one, two]
    assert rest["messages"][0] == rest["messages"][2] != rest["messages"][1] == rest["messages"][3]


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (encoded(bytes(50_001)), 413, "too_large"),
        ("A" * 9_001, 422, "invalid_input"),
        ("A" * 5_000 + "?" * 5_000, 422, "invalid_input"),
        (encoded(bytes(4_000)) + encoded(bytes(4_001)), 422, "invalid_input"),
        ("A" * 5_000 + "\ud800", 422, "invalid_input"),
    ],
    ids=["large", "cut", "signs", "padded within", "surrogate"],
)
def test_data_that_is_none_or_too_much_is_refused(monkeypatch, data, status, code):
    """At the first byte too many, or where it is no base64."""
    monkeypatch.setattr(file_bodies, "PIECE_BYTES", 1_000)
    with pytest.raises(Problem) as refused:
        read(body_of(data), [777])
    assert (refused.value.status, refused.value.code) == (status, code)


def test_a_long_text_counts_and_a_long_address_stays():
    """What is no base64 stays in its body, which is bounded as any other."""
    address = "https://files.example.org/?" + "x" * 9_000
    rest, files, _ = read(body_of(address), [1_000])
    assert (rest, files) == (json.loads(body_of(address)), [])
    with pytest.raises(Problem) as refused:
        read(body_of(address), [1_000], max_bytes=8_000)
    assert refused.value.code == "too_large"
    with pytest.raises(Problem):
        read(json.dumps({"text": encoded(bytes(9_000))}).encode(), [1_000], max_bytes=8_000)


@pytest.mark.parametrize("body", [b'{"messages": [{"data": "' + b"A" * 8_000, b'{"a": "b\\', b"]]]}}{", b""])
def test_what_is_cut_off_is_no_json(body):
    """A body that ends within a string, or is none, is for its parser to refuse."""
    with pytest.raises(ValueError, match=r"."):
        read(body, [1_000])


def test_closed_files_are_gone():
    """A file of a request cannot be read after it."""
    content = bytes(9_000)
    _, _, found = read(body_of(encoded(content)), [1_000])
    assert hashlib.sha256(content).hexdigest() not in found.files


def test_strings_deep_inside_of_brackets_are_not_looked_up():
    """A body of a million brackets with strings in them costs what its bytes cost: no place so deep may have a file."""
    depths = list[int]()

    class Paths(frozenset):
        def __contains__(self, path: object) -> bool:
            depths.append(len(path))
            return super().__contains__(path)

    found = reader()
    found._paths = Paths(PATHS)
    asyncio.run(found.feed(b'{"messages": [{"data": "x", "more": ' + b"[" * 1_000 + b'"",' * 100))
    assert max(depths) <= 5
    assert len(depths) < 10
