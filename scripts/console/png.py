"""Screenshots as small PNG files, with at most 96 colours."""

import base64
import struct
import zlib

from playwright.sync_api import Page

_INDEX = """async source => {
  const bitmap = await createImageBitmap(await (await fetch(source)).blob());
  const {width, height} = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const all = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  const palette = all.slice(0, 96);
  const parts = pixel => [pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255];
  const table = palette.map(parts);
  const indices = new Map(palette.map((pixel, index) => [pixel, index]));
  for (const pixel of all.slice(96)) {
    const [r, g, b] = parts(pixel);
    let best = 0, least = Infinity;
    table.forEach(([x, y, z], index) => {
      const away = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (away < least) [least, best] = [away, index];
    });
    indices.set(pixel, best);
  }
  const data = Uint8Array.from(pixels, pixel => indices.get(pixel));
  return {width, height, palette: table.flat(), data: data.toBase64()};
}"""
"""Looks up each pixel in a palette of the 96 most frequent colours."""


def small_png(blank: Page, screenshot: bytes) -> bytes:
    """Encode a screenshot with a palette; `blank` is a page without a policy, which computes it."""
    source = f"data:image/png;base64,{base64.b64encode(screenshot).decode()}"
    found = blank.evaluate(_INDEX, source)
    width, height = found["width"], found["height"]
    rows = base64.b64decode(found["data"])
    # Filter 0 of each row: what a palette's numbers differ by means nothing.
    lines = b"".join(b"\0" + rows[at : at + width] for at in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", bytes(found["palette"])),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
