/** Links out of the console, made from the templates of joblane.toml. */

/**
 * @param {string} template  With placeholders such as `{job_id}`.
 * @param {Record<string, string | null | undefined>} values
 * @returns {string | null}  Null if a value is missing, or if the address is not one that may be opened.
 */
export function fill(template, values) {
  let missing = false;
  const address = template.replace(/\{([a-z_]+)\}/g, (_, /** @type {string} */ name) => {
    const value = values[name];
    if (!value) missing = true;
    return encodeURIComponent(value ?? '');
  });
  return !missing && isSafe(address) ? address : null;
}

/** Whether it is `https:`, or `http:` on this machine. @param {string} address */
export function isSafe(address) {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  return protocol === 'https:' || (protocol === 'http:' && hostname === 'localhost');
}

/**
 * The links that belong on the page of something: those that name it, and whose placeholders all have a value.
 * @param {readonly import('./types').LinkView[]} links
 * @param {string} subject  The placeholder that a link must have, such as `agent`.
 * @param {Record<string, string | null | undefined>} values  By placeholder.
 * @returns {{ name: string, url: string }[]}
 */
export function linksFor(links, subject, values) {
  return links.flatMap(({ name, template }) => {
    const url = template.includes(`{${subject}}`) ? fill(template, values) : null;
    return url ? [{ name, url }] : [];
  });
}
