/**
 * Login of a person: authorization code with PKCE (RFC 7636).
 *
 * The access token is in this module's memory only. What must survive the way to the issuer and back
 * (state, verifier, where the reader was) is in sessionStorage until the answer comes.
 */

import { Store } from './view.js';

const PENDING = 'joblane.login';
const WAS_IN = 'joblane.was-in';

/**
 * @typedef {object} Login
 * @property {'starting' | 'out' | 'in' | 'ended'} phase  `ended`: the token has expired or was refused.
 * @property {string | null} problem  Why the last login failed, in a sentence.
 */

/** @type {Store<Login>} */
export const login = new Store(/** @type {Login} */ ({ phase: 'starting', problem: null }));

/** URL of the API, with a slash at its end; this page is its `console`. */
export const BASE = new URL('.', globalThis.location?.href ?? 'http://localhost/console');

/** @type {string | null} */
let accessToken = null;

/**
 * @typedef {object} Issuer
 * @property {string} client
 * @property {string} scope
 * @property {string | null} audience
 * @property {string} authorize
 * @property {string} token
 * @property {string | null} endSession
 */

/** The token for requests; null without a login. */
export function bearer() {
  return accessToken;
}

/** Read the answer of the issuer if there is one, or log in again after a reload. */
export async function start() {
  const answer = new URLSearchParams(location.search);
  const pending = take(PENDING);
  if (answer.has('state')) {
    // First of all: the code must not stay in the address, the history or a bookmark.
    history.replaceState(null, '', `${location.pathname}${pending?.hash ?? ''}`);
    dispatchEvent(new HashChangeEvent('hashchange'));
    try {
      await finish(answer, pending);
      sessionStorage.setItem(WAS_IN, '1');
      login.set({ phase: 'in', problem: null });
    } catch (error) {
      sessionStorage.removeItem(WAS_IN);
      login.set({ phase: 'out', problem: sentence(error) });
    }
    return;
  }
  if (sessionStorage.getItem(WAS_IN)) {
    sessionStorage.removeItem(WAS_IN); // one try: an issuer that refuses would send us round for ever
    await begin();
    return;
  }
  login.set({ phase: 'out', problem: null });
}

/** Go to the issuer's login page. */
export async function begin() {
  try {
    const issuer = await discover();
    const state = randomText();
    const verifier = randomText();
    sessionStorage.setItem(PENDING, JSON.stringify({ state, verifier, hash: location.hash }));
    const url = new URL(issuer.authorize);
    const query = {
      response_type: 'code',
      client_id: issuer.client,
      redirect_uri: callback(),
      scope: issuer.scope,
      state,
      code_challenge: await challenge(verifier),
      code_challenge_method: 'S256',
      ...(issuer.audience ? { audience: issuer.audience } : {}),
    };
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    location.assign(url);
  } catch (error) {
    login.set({ phase: 'out', problem: sentence(error) });
  }
}

/** Forget the token, and end the issuer's session where it has an address for that. */
export async function logOut() {
  accessToken = null;
  sessionStorage.removeItem(WAS_IN);
  login.set({ phase: 'out', problem: null });
  const issuer = await discover().catch(() => null);
  if (!issuer?.endSession) return;
  const url = new URL(issuer.endSession);
  url.searchParams.set('client_id', issuer.client);
  // Cognito's name for it, and OpenID Connect's.
  url.searchParams.set('logout_uri', callback());
  url.searchParams.set('post_logout_redirect_uri', callback());
  location.assign(url);
}

/** The API refused the token: keep the page, and offer to log in again. */
export function ended() {
  if (!accessToken) return;
  accessToken = null;
  login.set({ phase: 'ended', problem: null });
}

/**
 * @param {URLSearchParams} answer
 * @param {Record<string, string> | null} pending
 */
async function finish(answer, pending) {
  if (!pending || answer.get('state') !== pending.state) {
    throw new Error('The answer of the login page belongs to no login of this tab. Log in again.');
  }
  const refusal = answer.get('error');
  if (refusal) throw new Error(`The login was refused: ${answer.get('error_description') ?? refusal}.`);
  const issuer = await discover();
  const form = new URLSearchParams({
    grant_type: 'authorization_code',
    client_id: issuer.client,
    code: answer.get('code') ?? '',
    redirect_uri: callback(),
    code_verifier: pending.verifier ?? '',
  });
  const response = await fetch(issuer.token, { method: 'POST', body: form, credentials: 'omit', cache: 'no-store' });
  const tokens = await response.json().catch(() => ({}));
  if (!response.ok || !tokens.access_token) {
    throw new Error(`The issuer gave no token: ${tokens.error ?? `status ${response.status}`}. Log in again.`);
  }
  accessToken = String(tokens.access_token); // the refresh token is not kept
  const lifeMs = Number(tokens.expires_in ?? 300) * 1000;
  setTimeout(ended, Math.max(1000, lifeMs - 5000));
}

/** @returns {Promise<Issuer>} */
async function discover() {
  const asked = await readJson(new URL('v1/login', BASE), 'The API');
  if (!asked.client_id) {
    throw new Error('This deployment has no login for people. Set client_id in [access] of joblane.toml.');
  }
  const found = await readJson(new URL(String(asked.openid_configuration)), 'The issuer');
  return {
    client: String(asked.client_id),
    scope: /** @type {string[]} */ (asked.scopes).join(' '),
    audience: /** @type {string | null} */ (asked.audience),
    authorize: String(found.authorization_endpoint),
    token: String(found.token_endpoint),
    endSession: found.end_session_endpoint ? String(found.end_session_endpoint) : null,
  };
}

/**
 * @param {URL} url
 * @param {string} who
 * @returns {Promise<Record<string, unknown>>}
 */
async function readJson(url, who) {
  let response;
  try {
    response = await fetch(url, { credentials: 'omit' });
  } catch {
    throw new Error(`${who} cannot be reached at ${url.host}. Check your connection and try again.`);
  }
  if (!response.ok) throw new Error(`${who} answered with status ${response.status}. Try again in a minute.`);
  return response.json();
}

/** Where the issuer sends the reader back to: this page, as it is registered. */
function callback() {
  return new URL('console', BASE).href;
}

/**
 * @param {string} name
 * @returns {Record<string, string> | null}
 */
function take(name) {
  const text = sessionStorage.getItem(name);
  sessionStorage.removeItem(name);
  return text ? JSON.parse(text) : null;
}

function randomText() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** @param {string} verifier */
async function challenge(verifier) {
  return base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** @param {unknown} error */
function sentence(error) {
  return error instanceof Error ? error.message : String(error);
}
