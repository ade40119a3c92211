// Trees that keep what JSON.parse() forgets: how a number was spelt.  Objects have no prototype, so that every name is
// only a name.

export class Num {
  constructor(text) { this.text = text; }
}

export const object = (members = {}) => Object.assign(Object.create(null), members);
export const is_object = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) && !(v instanceof Num);

export function text(v) {
  if (v instanceof Num) return v.text;
  if (Array.isArray(v)) return `[${v.map(text).join(',')}]`;
  if (is_object(v)) return `{${Object.keys(v).map((k) => `${JSON.stringify(k)}:${text(v[k])}`).join(',')}}`;
  return JSON.stringify(v);
}

export function copy(v) {
  if (Array.isArray(v)) return v.map(copy);
  if (!is_object(v)) return v;
  const made = object();
  for (const k of Object.keys(v)) made[k] = copy(v[k]);
  return made;
}

// The value of a number's text as [digits, exponent of ten] with BigInt digits, exactly.
export function decimal(text) {
  const [, sign, whole, , fraction = '', , exponent = '0'] = /^(-?)(\d+)(\.(\d+))?([eE]([+-]?\d+))?$/.exec(text);
  return [BigInt(`${sign}${whole}${fraction}`), Number(exponent) - fraction.length];
}
