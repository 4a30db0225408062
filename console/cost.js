/** What a job has cost, estimated from the prices of joblane.toml. */

/** @typedef {{ usd_per_slot_hour_min: number, usd_per_slot_hour_max: number }} Price */

/**
 * US dollars for so many seconds on a slot, from the cheapest instance type to the dearest.
 * @param {number} seconds
 * @param {Price} price
 */
export function estimate(seconds, price) {
  const low = dollars((seconds / 3600) * price.usd_per_slot_hour_min);
  const high = dollars((seconds / 3600) * price.usd_per_slot_hour_max);
  return low === high ? low : `${low} to ${high}`;
}

/** Two significant digits below a dollar, without an exponent. @param {number} value */
export function dollars(value) {
  if (value >= 1) return `$${value.toFixed(2)}`;
  if (value < 1e-6) return value > 0 ? 'below $0.000001' : '$0';
  const places = Math.min(6, 1 - Math.floor(Math.log10(value)));
  return `$${value.toFixed(places)}`;
}
