// The smallest schema and document that two judges still disagree about in the same way.
import { Num, copy, is_object } from './json.mjs';

const TRIES = 1000;
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependencies', 'dependentSchemas'];

// Every tree that is the given one with one thing less.
function* smaller(v, keep) {
  if (Array.isArray(v)) {
    for (let i = 0; i < v.length; i++) yield v.filter((x, at) => at !== i);
    for (let i = 0; i < v.length; i++) for (const less of smaller(v[i])) yield v.map((x, at) => (at === i ? less : x));
  } else if (is_object(v)) {
    for (const k of Object.keys(v)) if (!keep?.includes(k)) { const less = copy(v); delete less[k]; yield less; }
    for (const k of Object.keys(v)) if (!keep?.includes(k)) yield* lifted(v, k);
    for (const k of Object.keys(v)) {
      for (const less of keep?.includes(k) ? [] : smaller(v[k])) { const made = copy(v); made[k] = less; yield made; }
    }
  } else if (typeof v === 'string' && v.length > 1) {
    yield [...v].slice(1).join('');
    yield [...v].slice(0, -1).join('');
  } else if (v instanceof Num && v.text !== '0') {
    yield new Num('0');
  }
}

// A subschema in the place of the schema around it.
function* lifted(v, key) {
  const below = v[key], map = MAPS.includes(key) && is_object(below);
  for (const child of Array.isArray(below) ? below : map ? Object.values(below) : [below]) {
    if (!is_object(child)) continue;
    const made = copy(child);
    for (const k of ['$schema', '$id', 'id', '$defs', 'definitions']) if (k in v && !(k in made)) made[k] = copy(v[k]);
    yield made;
  }
}

// The first tree in one pass over all that are smaller, and the place in the pass, or nothing.
async function find(candidates, from, tries, test) {
  let at = 0;
  for (const less of candidates) {
    if (at++ < from) continue;
    if (--tries.left < 0) return undefined;
    if (await test(less)) return { less, at: at - 1 };
  }
  return undefined;
}

// As small as it gets: passes go on where something was found, and end with a whole one that finds nothing.
async function least(v, keep, tries, test) {
  for (let from = 0; ;) {
    const found = await find(smaller(v, keep), from, tries, test);
    if (found) {
      v = found.less;
      from = found.at;
    } else if (from === 0 || tries.left < 0) {
      return v;
    } else {
      from = 0;
    }
  }
}

// differs(schema, document) promises whether the two still disagree alike.
export async function shrink(schema, document, differs) {
  const tries = { left: TRIES };
  schema = await least(schema, ['$schema'], tries, (s) => differs(s, document));
  if (document === undefined) return { schema, document };
  document = await least(document, [], tries, (d) => differs(schema, d));
  schema = await least(schema, ['$schema'], tries, (s) => differs(s, document));
  return { schema, document };
}

export const keywords = (v, into = new Set(), is_map = false) => {
  if (Array.isArray(v)) v.forEach((x) => keywords(x, into));
  else if (is_object(v)) {
    for (const k of Object.keys(v)) {
      if (!is_map) into.add(k);
      if (!is_map && ['const', 'enum', 'default', 'examples'].includes(k)) continue;
      keywords(v[k], into, !is_map && MAPS.includes(k));
    }
  }
  return into;
};
