"""Downloads against a server on this machine: resume, wrong checksums, mirrors, no network."""

import hashlib
import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from filelock import FileLock, Timeout
from typer.testing import CliRunner

from course_lab import corpora
from course_lab.cli.data import app
from course_lab.corpora import download, registry
from course_lab.corpora.download import fetch
from course_lab.corpora.files import check
from course_lib.errors import CourseError

TEXTS = {
    "train": "one two three four\n" * 20_000,
    "valid": "one two\n" * 5,
    "test": "three four\n" * 5,
}


class Server(BaseHTTPRequestHandler):
    """Serves TEXTS; `cuts` many answers end halfway, `ranges` says whether Range is understood."""

    cuts, ranges, garbage = 0, True, False
    length = redirect = None  # what is said in place of the true length; where it sends one on
    pause, extra = 0.0, b""  # seconds between single bytes; what comes behind the end
    log: list = []

    def do_GET(self):
        kind = type(self)
        text = TEXTS.get(self.path.strip("/").removesuffix(".txt"))
        if text is None:
            self.send_error(404)
            return
        content = text.encode()
        content = b"x" * len(content) if kind.garbage else content
        asked = self.headers.get("Range") if kind.ranges else None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        kind.log.append((self.path, start))
        if kind.redirect is not None:
            self.send_response(302)
            self.send_header("Location", kind.redirect)
            self.end_headers()
            return
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        length = str(len(content) - start) if kind.length is None else kind.length
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()
        body = content[start:] + kind.extra
        if kind.pause:
            with suppress(OSError):  # the other side has had enough
                for i in range(40):
                    self.wfile.write(body[i : i + 1])
                    self.wfile.flush()
                    time.sleep(kind.pause)
            return
        if kind.cuts > 0:
            kind.cuts -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(**settings):
    kind = type("Kind", (Server,), {"log": [], **settings})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", kind
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def corpus_at(monkeypatch, tmp_path):
    """Registers a corpus `tiny` at given addresses; corpora lie in a fresh folder."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)

    def register(*addresses):
        files = tuple(
            registry.File(
                f"{split}.txt",
                len(text),
                hashlib.sha256(text.encode()).hexdigest(),
                tuple(f"{address}{split}.txt" for address in addresses),
            )
            for split, text in TEXTS.items()
        )
        tiny = registry.Download("tiny", "", files, (100_000, 15, 15), 5, "", "a test server")
        monkeypatch.setitem(registry.DOWNLOADS, "tiny", tiny)
        return tmp_path / "tiny"

    return register


def left_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


WHOLE = ["test.txt", "train.txt", "valid.txt"]


def test_fetch_then_load(corpus_at):
    with serving() as (address, kind):
        folder = corpus_at(address)
        assert fetch("tiny", progress=False) == folder
        fetch("tiny", progress=False)
    assert left_in(folder) == WHOLE and len(kind.log) == 3  # what is there is not fetched again
    assert (folder / "train.txt").read_text() == TEXTS["train"]
    from course_lab.corpora.files import load_download

    assert len(load_download("tiny", download=False).train) == 100_000


def test_one_who_waits_and_goes_leaves_the_lock(corpus_at, monkeypatch):
    """Interrupted, it does not take away the lock of the download that it waited for."""

    class Interrupted:
        def __init__(self, path):
            pass

        def acquire(self, timeout=-1):
            raise Timeout("held") if timeout == 0 else KeyboardInterrupt

    with serving() as (address, _):
        folder = corpus_at(address)
        folder.mkdir()
        (folder / ".lock").write_text("")
        monkeypatch.setattr("course_lab.corpora.download.FileLock", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch("tiny", progress=False)
    assert left_in(folder) == [".lock"]


def test_a_cut_connection_is_resumed(corpus_at):
    with serving(cuts=1) as (address, kind):
        folder = corpus_at(address)
        fetch("tiny", progress=False)
    assert kind.log[:2] == [("/train.txt", 0), ("/train.txt", len(TEXTS["train"]) // 2)]
    assert left_in(folder) == WHOLE


def test_what_arrived_is_kept_for_the_next_start(corpus_at):
    with serving(cuts=99) as (address, _):
        folder = corpus_at(address)
        with pytest.raises(CourseError, match="the connection ended after 3[0-9]*,... of 380,000"):
            fetch("tiny", progress=False)
    assert left_in(folder) == ["train.txt.part"]
    arrived = (folder / "train.txt.part").stat().st_size
    with serving() as (address, kind):
        corpus_at(address)
        fetch("tiny", progress=False)
    assert kind.log[0] == ("/train.txt", arrived) and left_in(folder) == WHOLE


def test_a_server_without_ranges_starts_anew(corpus_at):
    with serving(cuts=2, ranges=False) as (address, kind):
        folder = corpus_at(address)
        fetch("tiny", progress=False)
    assert kind.log[:3] == [("/train.txt", 0)] * 3
    assert (folder / "train.txt").read_text() == TEXTS["train"]


def test_a_stale_part_is_thrown_away(corpus_at):
    with serving() as (address, _):
        folder = corpus_at(address)
        folder.mkdir()
        (folder / "train.txt.part").write_bytes(b"something else")
        (folder / "valid.txt.part").write_bytes(b"longer than the whole file" * 10)
        (folder / "test.txt.part").write_bytes(b"y" * len(TEXTS["test"]))
        fetch("tiny", progress=False)
    assert left_in(folder) == WHOLE
    assert (folder / "train.txt").read_text() == TEXTS["train"]


def test_a_wrong_checksum_is_removed_and_the_next_mirror_asked(corpus_at):
    with serving(garbage=True) as (bad, _), serving() as (good, _):
        folder = corpus_at(bad, good)
        fetch("tiny", progress=False)
        assert left_in(folder) == WHOLE
    with serving(garbage=True) as (bad, _):
        corpus_at(bad)
        (folder / "valid.txt").unlink()
        with pytest.raises(CourseError, match="valid.txt arrived with SHA-256"):
            fetch("tiny", progress=False)
    assert left_in(folder) == ["test.txt", "train.txt"]


def test_no_network_is_one_sentence_and_leaves_nothing(corpus_at):
    with serving() as (address, _):
        pass  # now nobody listens there
    folder = corpus_at(address)
    with pytest.raises(CourseError) as caught:
        fetch("tiny", progress=False)
    message = str(caught.value)
    expected = hashlib.sha256(TEXTS["train"].encode()).hexdigest()
    assert "\n" not in message and "python -m course_lab data fetch tiny" in message
    assert f"train.txt (SHA-256 {expected})" in message and str(folder) in message
    assert "COURSE_DATA" in message and "Connection refused" in message
    assert not folder.exists()


def test_missing_file_on_the_server(corpus_at):
    with serving() as (address, _):
        folder = corpus_at(f"{address}absent/")
        with pytest.raises(CourseError, match="tiny is not complete .* HTTP 404"):
            fetch("tiny", progress=False)
    assert not folder.exists()


def test_truncated_and_changed_files_are_named(corpus_at):
    from course_lab.corpora.files import load_download

    with serving() as (address, _):
        folder = corpus_at(address)
        fetch("tiny", progress=False)
    whole = (folder / "train.txt").read_bytes()
    (folder / "train.txt").write_bytes(whole[:-7])
    with pytest.raises(
        CourseError, match="train.txt is not the published file .truncated, 379,993"
    ):
        load_download("tiny")
    (folder / "train.txt").write_bytes(b"z" + whole[1:])
    with pytest.raises(CourseError, match="changed; SHA-256 .* expected .* data fetch tiny"):
        load_download("tiny")
    (folder / "train.txt").unlink()
    with pytest.raises(CourseError, match="tiny/train.txt .SHA-256 .* is missing; run"):
        load_download("tiny", download=False)


def test_a_folder_that_cannot_be_written(corpus_at, tmp_path, monkeypatch):
    corpus_at("http://127.0.0.1:9/")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file"))
    with pytest.raises(CourseError, match="tiny cannot be written to .*; set COURSE_DATA"):
        fetch("tiny", progress=False)


def test_unknown_name():
    with pytest.raises(CourseError, match="unknown corpus to download 'pbt'; did you mean ptb"):
        fetch("pbt")


def test_command_verify_names_what_is_wrong(corpus_at):
    with serving() as (address, _):
        folder = corpus_at(address)
        fetch("tiny", progress=False)
    good = CliRunner().invoke(app, ["verify", "tiny"])
    assert good.exit_code == 0 and good.stdout.count(" ok") == 3
    (folder / "test.txt").write_text("cut")
    bad = CliRunner().invoke(app, ["verify", "tiny"])
    assert bad.exit_code == 1 and "WRONG" in bad.stdout and "data fetch tiny" in bad.stdout


def test_course_data_is_found_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    from course_lib.data import folders

    assert folders.corpora() == tmp_path
    monkeypatch.setenv("COURSE_DATA", "mine/texts")  # from the repository, wherever one is
    monkeypatch.chdir(tmp_path)
    assert folders.corpora() == folders.home() / "mine" / "texts"
    monkeypatch.delenv("COURSE_DATA")
    assert folders.corpora().parts[-2:] == ("data", "corpora")
    assert "tiny" not in corpora.names()


# files without a published size or checksum


@pytest.fixture
def archive_at(monkeypatch, tmp_path, corpus_at):
    """Registers a corpus of one archive whose size and SHA-256 nobody published."""

    def register(address):
        file = registry.File("train.txt", None, None, (f"{address}train.txt",))
        tiny = registry.Download("tiny", "", (file,), (1, 1, 1), None, "", "a test server")
        monkeypatch.setitem(registry.DOWNLOADS, "tiny", tiny)
        return tmp_path / "tiny"

    return register


@pytest.fixture
def archived(monkeypatch):
    """What the server has begins like an archive."""
    content = "PK" + TEXTS["train"]
    monkeypatch.setitem(TEXTS, "train", content)
    return content


def test_every_name_is_checked_before_the_first_download(archive_at, archived):
    with serving() as (address, kind):
        folder = archive_at(address)
        result = CliRunner().invoke(app, ["fetch", "tiny", "tinny"])
    assert isinstance(result.exception, CourseError) and "did you mean tiny" in str(
        result.exception
    )
    assert kind.log == [] and not folder.exists()


def test_the_first_checksum_is_recorded(archive_at, archived):
    with serving(cuts=1) as (address, kind):
        folder = archive_at(address)
        result = CliRunner().invoke(app, ["fetch", "tiny"])
    sha256 = hashlib.sha256(archived.encode()).hexdigest()
    assert f"train.txt is unverified, SHA-256 {sha256}" in result.stdout, result.output
    assert [start for _, start in kind.log] == [0, len(archived) // 2]
    assert left_in(folder) == ["train.txt", "train.txt.sha256.json"]
    assert json.loads((folder / "train.txt.sha256.json").read_text()) == {
        "sha256": sha256,
        "bytes": len(archived),
        "verified": False,
    }
    entry = registry.DOWNLOADS["tiny"]
    check(folder, entry.files[0], entry)
    (folder / "train.txt").write_text("PK other")
    with pytest.raises(CourseError, match="is not the recorded file .changed; SHA-256"):
        check(folder, entry.files[0], entry)


def test_what_is_no_archive_is_not_taken_for_one(archive_at):
    with serving() as (address, _):
        folder = archive_at(address)
        with pytest.raises(CourseError, match="train.txt is not an archive.*SHA-256 not published"):
            fetch("tiny", progress=False)
    assert left_in(folder) == []


def test_a_folder_of_someone_else_is_read_without_a_record(archive_at, monkeypatch):
    folder = archive_at("http://127.0.0.1:9/")
    folder.mkdir()
    (folder / "train.txt").write_text("PK")
    entry = registry.DOWNLOADS["tiny"]
    monkeypatch.setattr(download.os, "replace", denied)
    assert check(folder, entry.files[0], entry) == folder / "train.txt"
    assert download.expected(entry.files[0], folder) is None


def denied(*arguments):
    raise PermissionError("read-only")


def of_unknown_size(monkeypatch, *addresses):
    """Registers `tiny` as one file, of which neither size nor SHA-256 is known."""
    file = registry.File("train.txt", None, None, tuple(f"{a}train.txt" for a in addresses))
    entry = registry.Download("tiny", "", (file,), None, None, "", "a test server")
    monkeypatch.setitem(registry.DOWNLOADS, "tiny", entry)
    monkeypatch.setattr(download, "archived", lambda path: True)


@pytest.mark.parametrize("length", ["abc", "-5", "0", "99999999999999"])
def test_a_length_that_is_none_sends_to_the_next_mirror(corpus_at, monkeypatch, length):
    folder = corpus_at()
    with serving(length=length) as (bad, _), serving() as (good, kind):
        of_unknown_size(monkeypatch, bad, good)
        fetch("tiny", progress=False)
    assert (folder / "train.txt").read_text() == TEXTS["train"] and len(kind.log) == 1


@pytest.mark.parametrize(
    "redirect", ["http://[bad", "nowhere:x", "file:///etc/passwd", "http://a b/"]
)
def test_a_bad_redirect_sends_to_the_next_mirror(corpus_at, redirect):
    with serving(redirect=redirect) as (bad, _), serving() as (good, _):
        folder = corpus_at(bad, good)
        fetch("tiny", progress=False)
        assert left_in(folder) == WHOLE


def test_what_is_too_long_is_not_taken(corpus_at, monkeypatch):
    """Of known size and of none: a server that does not stop fills no disk."""
    with serving(extra=b"x" * 500_000, length="") as (bad, _), serving() as (good, _):
        folder = corpus_at(bad, good)
        fetch("tiny", progress=False)
        assert (folder / "train.txt").read_text() == TEXTS["train"]
        (folder / "train.txt").unlink()
        monkeypatch.setattr(download, "LARGEST", 400_000)
        of_unknown_size(monkeypatch, bad)
        with pytest.raises(CourseError, match="more than 400,000 bytes arrived"):
            fetch("tiny", progress=False)
    assert "train.txt.part" not in left_in(folder)


def test_a_server_that_trickles_is_given_up(corpus_at, monkeypatch):
    monkeypatch.setattr(download, "WINDOW", 0.2)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with serving(pause=0.05) as (slow, _), serving() as (good, _):
        folder = corpus_at(slow, good)
        fetch("tiny", progress=False)
        assert left_in(folder) == WHOLE
        (folder / "train.txt").unlink()
        corpus_at(slow)
        with pytest.raises(CourseError, match="bytes a second arrived"):
            fetch("tiny", progress=False)


def test_a_second_fetch_says_that_it_waits(corpus_at, capsys):
    with serving() as (address, _):
        folder = corpus_at(address)
        folder.mkdir()
        first = FileLock(folder / ".lock")
        first.acquire()
        second = threading.Thread(target=fetch, args=("tiny", False))
        second.start()
        said = ""
        for _ in range(200):
            said += capsys.readouterr().err
            if said:
                break
            time.sleep(0.05)
        assert f"another process downloads to {folder}; waiting for it" in said
        first.release()
        second.join(30)
    assert not second.is_alive() and left_in(folder) == WHOLE
