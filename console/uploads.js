/** Input files of a submission: their digests, and sending those that are not there to S3. Loaded when a file is chosen. */

import { call } from './api.js';
import { bytes } from './time.js';

/** Largest file: the browser hashes it in memory. The command line takes 5 GiB. */
const MOST_BYTES = 512 * 1024 * 1024;

/** Most files of one request (`FilesInput`). */
const BATCH = 100;

/** How far an upload is. @typedef {{ files: number, sent: number, size: number }} Progress */

/**
 * SHA-256 of a file, in hexadecimal digits. Raises Error for one that is too large or cannot be read.
 * @param {File} file
 */
export async function digestOf(file) {
  if (file.size > MOST_BYTES) {
    throw new Error(`${file.name} has ${bytes(file.size)}; the console uploads files of at most ${bytes(MOST_BYTES)}: use joblane run --input`);
  }
  const content = await file.arrayBuffer().catch(() => {
    throw new Error(`${file.name} cannot be read: choose a file, not a directory`);
  });
  return [...new Uint8Array(await crypto.subtle.digest('SHA-256', content))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Upload the files that are not there, one after the other. Raises ApiError, Error, and AbortError when `signal` aborts.
 * @param {ReadonlyMap<string, File>} files  By their digests.
 * @param {(progress: Progress) => void} report
 * @param {AbortSignal} signal
 */
export async function upload(files, report, signal) {
  const all = [...files];
  const size = all.reduce((sum, [, file]) => sum + file.size, 0);
  let [done, sent] = [0, 0];
  for (let from = 0; from < all.length; from += BATCH) {
    const body = { files: all.slice(from, from + BATCH).map(([sha256, file]) => ({ sha256, size: file.size })) };
    /** @type {import('./types').FilesAnswer} */
    const answer = await call('POST', 'v1/files', { body, signal });
    for (const entry of answer.files) {
      const file = files.get(entry.sha256);
      if (!file) continue;
      report({ files: done, sent, size });
      if (entry.upload) await put(entry.upload, file, (of) => report({ files: done, sent: sent + of, size }), signal);
      done += 1;
      sent += file.size;
    }
  }
}

/**
 * Send a file to where the API has signed its length and digest for. It is no `fetch`, which tells no progress.
 * @param {import('./types').Upload} to
 * @param {File} file
 * @param {(bytes: number) => void} report
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function put({ url, headers }, file, report, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = (/** @type {string} */ why) => reject(new Error(`${file.name} could not be uploaded: ${why}`));
    request.open('PUT', url);
    for (const [name, value] of Object.entries(headers)) {
      if (name.toLowerCase() !== 'content-length') request.setRequestHeader(name, value); // that one the browser sends itself
    }
    request.upload.onprogress = (event) => report(Math.min(event.loaded, file.size));
    request.onload = () => {
      const code = /<Code>(\w+)<\/Code>/.exec(request.responseText)?.[1];
      if (request.status < 300) resolve();
      else fail(`S3 answered ${request.status}${code ? ` (${code})` : ''}`);
    };
    request.onerror = () => fail('the connection to S3 broke, or the file has changed since it was chosen');
    request.onabort = () => reject(new DOMException('The upload was stopped', 'AbortError'));
    if (signal.aborted) return request.onabort(new ProgressEvent('abort'));
    signal.addEventListener('abort', () => request.abort());
    request.send(file.slice(0, file.size, '')); // without a type, which the signature and the bucket do not have
    return undefined;
  });
}
