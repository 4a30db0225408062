"""Heads of answers to direct calls: what every answer of AWS looks like, and nothing else."""

import re

import pytest

from ec2_agent.aws_calls.transport import MOST_BODY_BYTES, NoAnswer, read_head


def test_a_head_is_read():
    head = read_head("HTTP/1.1 200 OK\r\nContent-Length: 12\r\nDATE:  today \r\nX-Empty:")
    assert (200, 12) == (head.status, head.length)
    assert {"content-length": "12", "date": "today", "x-empty": ""} == head.headers


@pytest.mark.parametrize("line", ["HTTP/1.1 200", "HTTP/1.1 400 Bad Request", "HTTP/1.1 503 "])
def test_status_lines_that_can_be(line: str):
    assert read_head(f"{line}\r\ncontent-length: 0").status in (200, 400, 503)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("", "status line"),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0", "status line"),
        ("HTTP/2 200\r\ncontent-length: 0", "status line"),
        ("HTTP/1.1 100 Continue\r\ncontent-length: 0", "status line"),
        ("HTTP/1.1 600 What\r\ncontent-length: 0", "status line"),
        ("HTTP/1.1 2000 OK\r\ncontent-length: 0", "status line"),
        ("HTTP/1.1 200OK\r\ncontent-length: 0", "status line"),
        ("\r\nHTTP/1.1 200 OK\r\ncontent-length: 0", "status line"),
        ("HTTP/1.1 200 OK", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length:", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: +1", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1_0", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1 0", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0x1", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: \u0661", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1, 1", "Content-Length"),
        (f"HTTP/1.1 200 OK\r\ncontent-length: {MOST_BODY_BYTES + 1}", "Content-Length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nContent-Length: 1", "two lengths"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nContent-Length: 2", "two lengths"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", "encoded"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked", "encoded"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-encoding: gzip", "encoded"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n folded", "no header"),
        ("HTTP/1.1 200 OK\r\ncontent-length : 1", "no header"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n: nameless", "no header"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nno colon", "no header"),
    ],
)
def test_heads_that_cannot_be(head: str, why: str):
    with pytest.raises(NoAnswer, match=re.escape(why)):
        read_head(head)
