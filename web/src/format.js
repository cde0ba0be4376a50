// Numbers as people write them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return whole.format(value);
  if (size < 1e-4) return value.toExponential(1).replace("e-", "e−");
  return three.format(value);
}

// The same with all three digits, for columns of scores.
const scores = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });

export function score(value) {
  const size = Math.abs(value ?? 0);
  return size >= 1e-4 && size < 100 ? scores.format(value) : number(value);
}

export function fixed(value, places) {
  return value === null || value === undefined ? "–" : value.toFixed(places).replace("-", "−");
}

// A change of a probability: small ones are not called none.
export function change(value) {
  return value > 0 && value < 0.005 ? "<\u202f0.01" : value.toFixed(2);
}

export function percent(share) {
  const value = 100 * share;
  const text = value > 0 && value < 1 ? "<\u202f1" : value > 99 && value < 100 ? ">\u202f99" : Math.round(value);
  return `${text}\u202f%`;
}

export function count(amount, one, many = `${one}s`) {
  return `${whole.format(amount)} ${amount === 1 ? one : many}`;
}

export function ordinal(rank) {
  const ending = [11, 12, 13].includes(rank % 100) ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[rank % 10] ?? "th");
  return `${whole.format(rank)}${ending}`;
}
