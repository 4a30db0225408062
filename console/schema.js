/** JSON Schemas of parameters and results, for people. */

/** @typedef {Record<string, any>} Schema */

/** A schema behind its reference. @param {Schema} schema @param {Schema} root @returns {Schema} */
export function resolved(schema, root) {
  const name = typeof schema?.$ref === 'string' ? /^#\/\$defs\/(.+)$/.exec(schema.$ref)?.[1] : undefined;
  const found = name ? root.$defs?.[name] : undefined;
  return found ? { ...found, ...schema, $ref: undefined } : schema ?? {};
}

/** The type of a value in words. @param {Schema} given @param {Schema} root @param {number} [depth] @returns {string} */
export function typeName(given, root, depth = 0) {
  const schema = resolved(given, root);
  if (depth > 3) return 'any';
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.map((each) => typeName(each, root, depth + 1)).join(' or ');
  if (Array.isArray(schema.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(', ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === 'array') return `array of ${schema.items ? typeName(schema.items, root, depth + 1) : 'any'}`;
  const type = Array.isArray(schema.type) ? schema.type.join(' or ') : String(schema.type ?? 'any');
  return schema.format ? `${type} (${schema.format})` : type;
}
