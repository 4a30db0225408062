/** Requests to the API, its errors, and whether it can be reached. */

import { BASE, bearer, ended } from './auth.js';
import { Store } from './view.js';

/**
 * @typedef {object} Connection
 * @property {number | null} lostAt  When requests began to fail (Unix milliseconds); null while they succeed.
 */

/** @type {Store<Connection>} */
export const connection = new Store(/** @type {Connection} */ ({ lostAt: null }));

/** An answer of the API that is an error, or no answer (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{ detail?: string, title?: string, message?: string, instance?: string, errors?: { field: string, problem: string }[] }} body
   * @param {number} retryAfterS
   */
  constructor(status, body, retryAfterS = 0) {
    super(body.detail ?? body.message ?? body.title ?? `status ${status}`);
    this.status = status;
    /** Each wrong field. */
    this.errors = body.errors ?? [];
    /** Id of the request, for the operator's logs. */
    this.requestId = body.instance ?? null;
    this.retryAfterS = retryAfterS;
  }
}

/**
 * A path of the API whose values are encoded: path`v1/jobs/${id}`.
 * @param {TemplateStringsArray} texts
 * @param {...string} values
 */
export function path(texts, ...values) {
  return texts.reduce((all, text, n) => all + encodeURIComponent(values[n - 1] ?? '') + text);
}

/**
 * @typedef {object} Options
 * @property {Record<string, string | number | boolean | string[] | null | undefined> | URLSearchParams} [query]
 * @property {unknown} [body]  Sent as JSON.
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 */

/**
 * Send a request. Raises ApiError, and AbortError when `signal` aborts.
 * @template [T=any]
 * @param {'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} method
 * @param {string} where  Such as `v1/jobs`.
 * @param {Options} [options]
 * @returns {Promise<T>}  The body of the answer; null if it has none.
 */
export async function call(method, where, options = {}) {
  return (await exchange(method, where, options)).body;
}

/**
 * As `call`, with the answer's ETag.
 * @template [T=any]
 * @param {'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} method
 * @param {string} where
 * @param {Options} [options]
 * @returns {Promise<{ body: T, etag: string | null }>}
 */
export async function exchange(method, where, options = {}) {
  if (!isPlain(where)) throw new ApiError(404, { detail: 'Nothing has such a name.' });
  const url = new URL(where, BASE);
  if (options.query) url.search = searchText(options.query);
  /** @type {Record<string, string>} */
  const headers = { Accept: 'application/json', ...options.headers };
  const token = bearer();
  if (token) headers.Authorization = `Bearer ${token}`;
  /** @type {RequestInit} */
  const init = { method, headers, credentials: 'omit', cache: 'no-store' };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (connection.value.lostAt === null) connection.set({ lostAt: Date.now() });
    throw new ApiError(0, { detail: 'The API cannot be reached.' });
  }
  if (connection.value.lostAt !== null) connection.set({ lostAt: null });
  const body = response.status === 204 ? null : await response.json().catch(() => ({}));
  if (!response.ok) {
    if (response.status === 401) ended();
    throw new ApiError(response.status, body ?? {}, Number(response.headers.get('Retry-After') ?? 0));
  }
  return { body, etag: response.headers.get('ETag') };
}

/**
 * Whether each part of a path is one for the API too. API Gateway decodes a path before it looks for the route: the id
 * `ID/logs` would call another one. Names have letters, digits and `_ . : -`, as the SDK checks.
 * @param {string} where
 */
export function isPlain(where) {
  return where.split('/').every((part) => /^([\w.:-]|%3A)+$/.test(part) && !/^\.+$/.test(part));
}

/** @param {NonNullable<Options['query']>} query */
function searchText(query) {
  if (query instanceof URLSearchParams) return query.toString();
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') params.append(name, String(one));
    }
  }
  return params.toString();
}
