/** Segments of keys as people write them: `customer / acme / 7`; a text that looks like one of JSON in quotes. */

/** Write a segment. @param {string | number | boolean} segment */
export function written(segment) {
  return typeof segment === 'string' && (isValue(segment) || /["/[]|^\s|\s$|^$/.test(segment)) ? JSON.stringify(segment) : String(segment);
}

/** Write the segments that an address has as JSON; what is none stays as it is. @param {string | null} json */
export function showSegments(json) {
  try {
    const segments = JSON.parse(json ?? '[]');
    return Array.isArray(segments) ? segments.map(written).join(' / ') : json ?? '';
  } catch {
    return json ?? '';
  }
}

/** Inverse of `showSegments`; a JSON array stays as it is. @param {string} text */
export function parseSegments(text) {
  const trimmed = text.trim();
  if (!trimmed || trimmed.startsWith('[')) return trimmed;
  const parts = trimmed.match(/"(?:[^"\\]|\\.)*"|[^/]+/g) ?? [];
  const values = parts.map((part) => part.trim()).filter(Boolean);
  return `[${values.map((part) => (part.startsWith('"') || isValue(part) ? part : JSON.stringify(part))).join(',')}]`;
}

/** @param {string} text */
function isValue(text) {
  return /^(true|false|-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?)$/.test(text);
}
