"""Versions of the website side by side: folders, the menu's file, the newest release."""

import json

import pytest

from course_lib.errors import CourseError
from tools import published, site

ADDRESS = "https://course.example/pages"


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Publish a version whose site is one page that says which it is."""

    def build(executed, output, commands, version):
        output.mkdir(parents=True, exist_ok=True)
        (output / "index.html").write_text(f"the site of {version}")
        return output / "index.html"

    monkeypatch.setattr(site, "build", build)
    return lambda name: published.publish(tmp_path, tmp_path / "shown", name, ADDRESS, {})


def menu(folder):
    return json.loads((folder / published.MENU).read_text("utf-8"))


def test_the_newest_release_is_latest_whatever_the_order(publish, tmp_path):
    shown = tmp_path / "shown"
    publish("main")
    assert 'url=main/"' in (shown / "index.html").read_text()
    assert not (shown / "latest").exists()
    for name in ("v0.9.0", "v0.10.0", "v0.2.0", "main"):
        assert publish(name) == shown / name / "index.html"
    assert published.releases(shown) == ["v0.10.0", "v0.9.0", "v0.2.0"]
    assert (shown / "latest/index.html").read_text() == "the site of v0.10.0"
    assert 'url=latest/"' in (shown / "index.html").read_text()
    assert [(entry["name"], entry["url"]) for entry in menu(shown)] == [
        ("v0.10.0 (newest)", f"{ADDRESS}/latest/"),
        ("v0.9.0", f"{ADDRESS}/v0.9.0/"),
        ("v0.2.0", f"{ADDRESS}/v0.2.0/"),
        ("main (draft)", f"{ADDRESS}/main/"),
    ]
    assert [entry["version"] for entry in menu(shown)] == ["v0.10.0", "v0.9.0", "v0.2.0", "main"]
    assert (shown / ".nojekyll").exists()


@pytest.mark.parametrize("name", ["latest", "..", "a/b", "", ".git"])
def test_a_name_that_is_no_folder_of_its_own_is_refused(publish, tmp_path, name):
    with pytest.raises(CourseError, match=r"called like its tag or branch, such as v0\.2\.0"):
        publish(name)
    assert not (tmp_path / "shown").exists()


# --- links ---------------------------------------------------------------------------------------


def test_links_that_lead_nowhere_are_told_with_page_and_reason(monkeypatch, tmp_path):
    import contextlib

    lines = [
        {"filename": "a.md", "uri": "https://x/1", "status": "working", "info": ""},
        {"filename": "a.md", "uri": "https://x/2", "status": "broken", "info": "404 Not Found"},
        {"filename": "b.md", "uri": "https://x/3", "status": "broken", "info": "403 Forbidden"},
        {"filename": "b.md", "uri": "https://x/4", "status": "timeout", "info": "30 s"},
        {"filename": "b.md", "uri": "https://x/5", "status": "redirected", "info": "https://y"},
    ]

    @contextlib.contextmanager
    def sources(executed, commands):
        yield tmp_path / "source"

    def sphinx(source, output, builder, options):
        assert builder == "linkcheck"
        output.mkdir()
        (output / "output.json").write_text("\n".join(map(json.dumps, lines)))
        return "exit code 1"

    monkeypatch.setattr(site, "sources", sources)
    monkeypatch.setattr(site, "sphinx", sphinx)
    assert site.doubtful_links(tmp_path, {}) == [
        "a.md: https://x/2: 404 Not Found",
        "b.md: https://x/4: 30 s",
    ]
    monkeypatch.setattr(site, "sphinx", lambda *arguments: "no conf.py")
    (tmp_path / "links/output.json").unlink()
    with pytest.raises(CourseError, match="not checked, Sphinx reported:\nno conf.py"):
        site.doubtful_links(tmp_path, {})


def test_sphinx_follows_links(tmp_path):
    """A real run on two links of a page: one host that answers, one address that is not there."""
    import functools
    import http.server
    import threading

    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text("extensions = ['myst_parser']\n")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=source)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        (source / "index.md").write_text(f"# T\n\n[a]({address}/conf.py) [b]({address}/none)\n")
        assert site.sphinx(source, tmp_path / "links", "linkcheck", ["-Dlinkcheck_retries=1"])
        server.shutdown()
    lines = (tmp_path / "links/output.json").read_text("utf-8").splitlines()
    states = {entry["uri"][len(address) :]: entry["status"] for entry in map(json.loads, lines)}
    assert states == {"/conf.py": "working", "/none": "broken"}
