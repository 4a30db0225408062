"""The console function, from its bundle: headers, tags, encodings, paths; and what it imports."""

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from infra.console_files import write_console

ROOT = Path(__file__).parents[3]
ISSUER = "https://cognito-idp.eu-west-1.amazonaws.com https://d.auth.eu-west-1.amazoncognito.com"

Answer = dict[str, Any]
Ask = Callable[..., Answer]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    write_console(ROOT / "console", folder)
    shutil.copy(ROOT / "functions" / "console" / "handler.py", folder)
    return folder


@pytest.fixture(name="ask", scope="module")
def _ask(folder: Path) -> Ask:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOBLANE_CONNECT", ISSUER)
        spec = spec_from_file_location("console_handler", folder / "handler.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)

    def ask(path: str | None = None, raw: str | None = None, **headers: str) -> Answer:
        event = {
            "rawPath": raw or "/console" + ("" if path is None else f"/{path}"),
            "headers": {name.replace("_", "-"): value for name, value in headers.items()},
            "pathParameters": None if path is None else {"path": path},
        }
        answer: Answer = module.main(event, None)
        json.dumps(answer)
        return answer

    return ask


@pytest.fixture(name="version", scope="module")
def _version(folder: Path) -> str:
    return str(json.loads((folder / "console.json").read_text())["version"])


def test_the_page_lets_in_its_own_files_and_nothing_else(ask: Ask):
    answer = ask()
    assert 200 == answer["statusCode"]
    assert {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": f"'self' {ISSUER}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    } == dict(
        each.split(" ", 1) for each in answer["headers"]["content-security-policy"].split("; ")
    )


def test_the_page_has_the_headers_that_keep_others_out(ask: Ask):
    headers = ask()["headers"]
    assert {
        "cache-control": "no-cache",
        "content-type": "text/html; charset=utf-8",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "strict-transport-security": "max-age=63072000",
        "vary": "accept-encoding",
        "x-content-type-options": "nosniff",
    }.items() <= headers.items()
    features = headers["permissions-policy"].split(", ")
    assert {"camera=()", "geolocation=()", "microphone=()", "payment=()", "usb=()"} < {*features}
    assert all(feature.endswith("=()") for feature in features)
    assert not [name for name in headers if name.startswith(("access-control", "set-cookie"))]


def test_a_file_is_kept_for_a_year_and_read_as_what_it_is(ask: Ask, version: str, folder: Path):
    for name, kind in (
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/preact.js", "text/javascript; charset=utf-8"),
    ):
        answer = ask(f"{version}/{name}")
        assert 200 == answer["statusCode"]
        assert {
            "cache-control": "public, max-age=31536000, immutable",
            "content-type": kind,
            "cross-origin-resource-policy": "same-origin",
            "strict-transport-security": "max-age=63072000",
            "x-content-type-options": "nosniff",
        }.items() <= answer["headers"].items()
        assert (folder / "files" / name).read_bytes() == b64decode(answer["body"])


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=1.0, GZIP;q=0.5", "br"),
        ("br;q=0, GZIP;q=0.5", "gzip"),
        ("deflate, gzip;q=0", None),
        ("gzip; q=0.0", None),
        ("brotli", None),
        ("identity", None),
        ("", None),
    ],
)
def test_it_compresses_for_who_can_read_it(
    ask: Ask, version: str, folder: Path, accepted: str, encoding: str | None
):
    plain = ask(f"{version}/vendor/preact.js")
    answer = ask(f"{version}/vendor/preact.js", accept_encoding=accepted)
    assert encoding == answer["headers"].get("content-encoding")
    end = f".{encoding}" if encoding else ""
    kept = folder / "files" / "vendor" / f"preact.js{end}"
    assert kept.read_bytes() == b64decode(answer["body"])
    assert (encoding is None) == (plain["headers"]["etag"] == answer["headers"]["etag"])
    assert (encoding is None) == (len(answer["body"]) == len(plain["body"]))


@pytest.mark.parametrize("shown", ["{}", "W/{}", '"other", {}', "*"])
def test_an_unchanged_page_is_not_sent_again(ask: Ask, shown: str):
    first = ask(accept_encoding="gzip")
    tag = first["headers"]["etag"]
    again = ask(accept_encoding="gzip", if_none_match=shown.format(tag))
    assert (304, "") == (again["statusCode"], again["body"])
    # RFC 9110: those of a 200, but for what describes the content.
    unsent = {"content-encoding"}
    assert {k: v for k, v in first["headers"].items() if k not in unsent} == again["headers"]


def test_another_version_of_the_page_is_sent(ask: Ask):
    tag = ask()["headers"]["etag"]
    assert 200 == ask(if_none_match='"0123"')["statusCode"]
    assert 200 == ask(if_none_match=tag, accept_encoding="gzip")["statusCode"]


@pytest.mark.parametrize(
    "path",
    [
        "0123456789abcdef/app.js",
        "{version}",
        "{version}/",
        "{version}/index.html",
        "{version}/none.js",
        "{version}/types.d.ts",
        "{version}/../console.json",
        "{version}/../handler.py",
        "{version}//etc/passwd",
        "{version}/app.js.gzip",
        "{version}/app.js.br",
        "../handler.py",
        "app.js",
        "/",
        "%2e%2e/handler.py",
    ],
)
def test_what_is_no_file_of_this_version_is_not_found(ask: Ask, version: str, path: str):
    answer = ask(path.format(version=version))
    assert (404, "no-store") == (answer["statusCode"], answer["headers"]["cache-control"])
    assert "text/plain" == answer["headers"]["content-type"]
    assert path.format(version=version) not in answer["body"]


@pytest.mark.parametrize(("path", "raw"), [("", "/console/"), (None, "/console/")])
def test_a_slash_at_the_end_leads_to_the_page(ask: Ask, path: str | None, raw: str):
    answer = ask(path, raw)
    assert (308, "../console") == (answer["statusCode"], answer["headers"]["location"])


def test_the_local_page_connects_to_its_own_origin_only(folder: Path):
    program = "import handler; print(handler.POLICY)"
    done = run(folder, program, JOBLANE_CONNECT="")
    assert "connect-src 'self';" in done


def run(folder: Path, program: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {program}"],
        env={"PATH": os.environ["PATH"], **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_cold_start_loads_nothing_that_an_empty_function_does_not(folder: Path):
    """Lambda's own runtime has imported json and os before a handler."""
    program = (
        "import json, os; before = set(sys.modules); import handler; "
        "print(sorted(set(sys.modules) - before))"
    )
    assert "['binascii', 'handler']" == run(folder, program, JOBLANE_CONNECT="").strip()


def test_it_writes_nothing_of_what_it_is_asked(folder: Path):
    event = {
        "rawPath": "/console",
        "rawQueryString": "code=SECRET&state=SECRET",
        "queryStringParameters": {"code": "SECRET"},
        "headers": {"authorization": "Bearer SECRET", "cookie": "SECRET"},
        "pathParameters": None,
    }
    program = f"import handler; print('SECRET' in str(handler.main({event!r}, None)))"
    assert "False\n" == run(folder, program, JOBLANE_CONNECT="")
