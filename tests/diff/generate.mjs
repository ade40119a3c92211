// Pairs of a schema and documents from a seed.  A schema is made for a value, keyword by keyword, so that the value mostly
// fits; the documents are that value and what becomes of it when something in it is changed.
import { Num, copy, is_object, object, text } from './json.mjs';

export const DRAFTS = {
  '2020-12': 'https://json-schema.org/draft/2020-12/schema',
  '2019-09': 'https://json-schema.org/draft/2019-09/schema',
  'draft-07': 'http://json-schema.org/draft-07/schema#',
  'draft-06': 'http://json-schema.org/draft-06/schema#',
  'draft-04': 'http://json-schema.org/draft-04/schema#',
};
const ORDER = Object.keys(DRAFTS).reverse();

const NUMBERS = [
  '0', '1', '2', '3', '7', '-1', '10', '100', '1.0', '1e0', '10e-1', '2.5', '0.1', '0.3', '0.0075', '0.0001', '-0',
  '-0.0', '1e3', '1e-7', '1e19', '1e308', '4294967296', '9007199254740991', '9007199254740993',
  '9223372036854775807', '-9223372036854775808', '1.5e300', '5e-324', '3.14',
];
const HUGE = [
  '9223372036854775808', '-9223372036854775809', '18446744073709551616', '123456789012345678901234567890',
  '1e400', '9007199254740993.5',
];
const STEPS = ['1', '2', '3', '0.5', '0.1', '0.01', '0.0001', '2.5', '1e-8', '100', '1.0', '1e3', '3e-5'];
const STRINGS = [
  '', 'a', 'ab', 'abc', 'abcabc', 'A1', 'foo-bar', '2024-02-29', 'é', 'e\u0301', '😀', '😀a', 'a\nb', '\t', 'ß',
  'µ', '\u2028', '0', 'x'.repeat(40), 'a.b', '\u0000', '{"a":1}', 'YQ==', 'true', '\ud800',
];
const NAMES = [
  'a', 'b', 'c', 'd', 'foo', 'bar', 'x-1', '', 'a/b', 'a~b', 'é', '😀', 'a%25b', '0', 'length', '$ref',
  'constructor', '__proto__',
];
const PATTERNS = [
  '^a', 'b$', '^[a-z]+$', '\\d', '^\\d{4}-\\d{2}-\\d{2}$', '.', '^.$', '^..$', '[^a]', '^\\S*$', '\\s', '\\w',
  '^\\W', '\\p{L}', '^\\p{Lu}', '\\u{1F600}', '\\ud83d\\ude00', '^(?:ab|a)c?', '(a)b\\1', '(?<n>b)c\\k<n>?',
  '^(?!x)', '(?=.*[0-9])', '(?<=a)b', '^$', 'x{2,}', '^x{1,39}$', '[\\w.-]+', '[\\s\\S]', '\\P{L}', '^[^]$',
  '[\\u0000-\\u001f]', '\\cJ', '\\bfoo\\b', '^(a|b|ab)*$', '\\p{Script=Greek}', '^.{1,3}$', '\\x61', '\\/',
  '\\.',
];
const BROKEN_PATTERNS = [
  '(', '[z-a]', '*', 'a{2,1}', '\\a', '\\1', '\\-', '(?i)a', 'a**', '\\p{Nope}', '(?<n>a)(?<n>b)', '\\k<n>',
  '\\01', '{', '[\\w-z]', '^[\\d-x]?', '\\u{110000}', '(?<=a+)b', ']', '\\_', '(?=a)*', '[\\-]', '\\p{L',
];
const FORMATS = ['date-time', 'email', 'ipv4', 'uuid', 'no-such-format'];
const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

export class Random {
  constructor(seed) { this.state = seed >>> 0; }

  next() {                              // mulberry32
    let t = (this.state = (this.state + 0x6d2b79f5) >>> 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  int(n) { return Math.floor(this.next() * n); }
  chance(p) { return this.next() < p; }
  pick(list) { return list[this.int(list.length)]; }
  some(list, p) { return list.filter(() => this.chance(p)); }
}

// VALUES

export function value(r, depth = 3) {
  const kind = r.int(depth > 0 ? 12 : 7);
  if (kind === 0) return r.pick([null, true, false]);
  if (kind < 4) return new Num(r.pick(r.chance(0.01) ? HUGE : NUMBERS));
  if (kind < 7) return r.chance(0.02) ? '\ud800' : r.pick(STRINGS.slice(0, -1));
  if (kind < 9) return Array.from({ length: r.int(5) }, () => value(r, depth - 1));
  const made = object();
  for (let n = r.int(5); n > 0; n--) made[name(r)] = value(r, depth - 1);
  return made;
}

const name = (r) => r.pick(r.chance(0.8) ? NAMES.slice(0, 6) : NAMES);

function change_leaf(r, v) {
  if (v instanceof Num && r.chance(0.7)) return new Num(respell(r, v.text));
  if (typeof v === 'string' && r.chance(0.7)) {
    const longer = v + r.pick(['a', '1', '😀', '\n', ' ']), shorter = v.slice(0, -1).replace(/[\ud800-\udbff]$/, '');
    return r.pick([longer, shorter, r.pick(STRINGS.slice(0, -1))]);
  }
  return value(r, 1);
}

function respell(r, text) {
  const whole = /^-?\d{1,15}$/.test(text);
  const near = [`${Number(text) + 1}`, `${Number(text) - 1}`, `${text}.0`, `${text}e0`, `${text}.5`];
  if (whole && r.chance(0.6)) return r.pick(near);
  return r.pick(r.chance(0.01) ? HUGE : NUMBERS);
}

export function mutate(r, v, depth = 3) {
  if (Array.isArray(v) && depth > 0 && v.length && r.chance(0.8)) {
    const made = v.map(copy), i = r.int(made.length);
    switch (r.int(6)) {
    case 0: made.splice(i, 1); break;
    case 1: made.push(copy(made[i])); break;
    case 2: made.splice(i, 0, value(r, 1)); break;
    default: made[i] = mutate(r, made[i], depth - 1);
    }
    return made;
  }
  if (is_object(v) && depth > 0 && r.chance(0.85)) {
    const made = copy(v), key = r.pick([...Object.keys(v), name(r)]);
    const kind = key in made ? r.int(5) : 4;
    if (kind === 0) delete made[key];
    else if (kind < 4) made[key] = mutate(r, made[key], depth - 1);
    else made[name(r)] = value(r, 1);
    return made;
  }
  return change_leaf(r, v);
}

// The same value in other words: members in another order, whole numbers spelt as 1, 1.0 or 1e0.
function reword(r, v) {
  if (Array.isArray(v)) return v.map((x) => reword(r, x));
  if (v instanceof Num) return /^-?\d{1,15}$/.test(v.text) && r.chance(0.3) ? new Num(v.text + r.pick(['.0', 'e0', '.00'])) : v;
  if (!is_object(v)) return v;
  const made = object();
  for (const k of Object.keys(v).reverse()) made[k] = reword(r, v[k]);
  return made;
}

// SCHEMAS

function type_of(v) {
  if (v === null) return 'null';
  if (Array.isArray(v)) return 'array';
  if (v instanceof Num) return Number.isInteger(Number(v.text)) ? 'integer' : 'number';
  return typeof v;
}

class Maker {
  constructor(r, draft, base) {
    this.r = r;
    this.draft = draft;
    this.age = ORDER.indexOf(draft);    // 0 = draft-04 ... 4 = 2020-12
    this.base = base;
    this.defs = object();
    this.targets = ['#'];
    this.left = 40;                     // subschemas
    this.inside = 0;                    // levels of the value that the schema at hand lies below the root
  }

  get defs_name() { return this.age >= 3 ? '$defs' : 'definitions'; }
  at_least(draft) { return this.age >= ORDER.indexOf(draft); }

  // A schema that v mostly fits.
  schema(v, depth) {
    const r = this.r;
    if (--this.left < 0 || depth <= 0 || r.chance(0.08)) {
      if (this.age > 0 && r.chance(0.7)) return r.chance(0.93);
      return object();
    }
    const s = object();
    for (let n = 1 + r.int(depth); n > 0; n--) this.group(s, r.chance(0.985) ? v : value(r, 1), depth);
    return s;
  }

  // The same for a member or an element.
  child(v, depth) {
    this.inside++;
    const s = this.schema(v, depth - 1);
    this.inside--;
    return s;
  }

  other(v) { return this.r.chance(0.6) ? mutate(this.r, v) : value(this.r, 2); }

  group(s, v, depth) {
    const r = this.r, kind = r.int(20);
    if (kind < 2) this.type(s, v);
    else if (kind < 4) this.constant(s, v);
    else if (kind < 8) this.logic(s, v, depth);
    else if (kind < 10) this.reference(s, v, depth);
    else if (kind === 10) this.note(s, v);
    else if (Array.isArray(v)) this.array(s, v, depth);
    else if (is_object(v)) this.object(s, v, depth);
    else if (typeof v === 'string') this.string(s, v);
    else if (v instanceof Num) this.number(s, v);
    else this.type(s, v);
  }

  type(s, v) {
    const r = this.r, own = type_of(v), is = own === 'integer' && r.chance(0.3) ? 'number' : own;
    s.type = r.chance(0.03) ? r.pick(TYPES) : r.chance(0.3) ? [...new Set([r.pick(TYPES), is])] : is;
  }

  constant(s, v) {
    const r = this.r, one = v instanceof Num && r.chance(0.08) ? new Num(respell(r, v.text)) : copy(v);
    if (this.at_least('draft-06') && r.chance(0.5)) s.const = one;
    else s.enum = this.distinct([...Array.from({ length: r.int(4) }, () => this.other(v)), one]);
  }

  // Drafts 04 and 06 want different values in an enum.
  distinct(list) {
    const seen = new Set();
    return list.filter((v) => {
      const key = JSON.stringify(v, (k, x) => (x instanceof Num ? Number(x.text) : x));
      return !seen.has(key) && seen.add(key);
    });
  }

  logic(s, v, depth) {
    const r = this.r, own = () => this.schema(v, depth - 1), other = () => this.schema(this.other(v), depth - 1);
    switch (r.int(this.at_least('draft-07') ? 6 : 4)) {
    case 0: s.allOf = Array.from({ length: 1 + r.int(3) }, own); break;
    case 1: s.anyOf = [...r.some([1, 2], 0.6).map(other), own(), ...r.some([1], 0.5).map(other)]; break;
    case 2: s.oneOf = [own(), ...r.some([1, 2], 0.6).map(() => (r.chance(0.5) ? other() : this.flat(value(r, 1))))]; break;
    case 3: s.not = r.chance(0.7) ? object({ type: this.other_type(v) }) : other(); break;
    default:
      s.if = r.chance(0.5) ? own() : other();
      if (r.chance(0.8)) s.then = r.chance(0.7) ? own() : other();
      if (r.chance(0.6)) s.else = r.chance(0.7) ? own() : other();
    }
  }

  other_type(v) { return this.r.pick(TYPES.filter((t) => t !== type_of(v) && t !== 'number')); }

  pointer(key) {
    return `#/${this.defs_name}/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
  }

  define(v, depth) {
    const key = `${this.r.pick(['x', 'y/', 'z~', 'w%'])}${Object.keys(this.defs).length}`;
    this.defs[key] = true;              // keeps its place while the schema is made
    this.defs[key] = this.schema(v, depth - 1);
    if (this.age === 0 && this.defs[key] === true) this.defs[key] = object();
    return key;
  }

  reference(s, v, depth) {
    const r = this.r, kind = r.int(10);
    if (kind < 5) {
      const key = this.define(v, depth);
      s.$ref = this.pointer(key);
      this.targets.push(s.$ref);
    } else if (kind < 7) {
      s.$ref = this.anchored(v, depth);
      this.targets.push(s.$ref);
    } else if (kind < 8) {
      const root = this.inside && r.chance(0.5);
      const known = root ? this.targets.slice(0, 1) : this.targets.slice(r.chance(0.005) ? 0 : 1);
      if (r.chance(0.03)) s.$ref = r.pick(['#/nowhere', '#nowhere', 'other.json', DRAFTS[this.draft]]);
      else if (known.length) s.$ref = r.pick(known);
    } else if (this.age >= 3) {
      this.dynamic(s, v, depth);
    }
  }

  // A definition with a name or an identifier of its own, and the reference to it.
  anchored(v, depth) {
    const key = this.define(v, depth), target = this.defs[key], id = `n${Object.keys(this.defs).length}`;
    if (!is_object(target) || (this.age < 3 && target.$ref)) return this.pointer(key);
    if (this.r.chance(0.6)) {
      if (this.age >= 3) target.$anchor = id;
      else target[this.age ? '$id' : 'id'] = `#${id}`;
      return `#${id}`;
    }
    if (/"\$(ref|dynamicRef|recursiveRef)"/.test(text(target))) return this.targets[0];
    target[this.age ? '$id' : 'id'] = `${id}.json`;
    return this.r.chance(0.5) ? `${id}.json` : `${this.base}${id}.json`;
  }

  dynamic(s, v, depth) {
    const r = this.r;
    if (this.age === 3 && !this.inside) return;
    if (this.age === 3) {
      s.$recursiveRef = '#';
      this.recursive = r.chance(0.7);
      return;
    }
    if (r.chance(0.97)) {
      if (!this.inside) return;
      this.node = true;
      s.$dynamicRef = '#node';
      return;
    }
    const anchor = r.pick(['p', 'q']), key = this.define(v, depth), target = this.defs[key];
    if (!is_object(target)) {
      this.node = true;
      s.$dynamicRef = '#node';
      return;
    }
    const name = anchor + key.length + Object.keys(this.defs).length, dynamic = r.chance(0.7);
    target[dynamic ? '$dynamicAnchor' : '$anchor'] = name;
    s.$dynamicRef = `#${target.$dynamicAnchor ?? target.$anchor}`;
    if (target.$dynamicAnchor && r.chance(0.6)) this.override(target.$dynamicAnchor, v);
  }

  // The same dynamic anchor in a resource around: which of the two counts is decided when it runs.
  override(anchor, v) {
    const $defs = object({
      in: object({ $dynamicRef: `#${anchor}` }),
      out: object({ $dynamicAnchor: anchor, ...this.flat(v) }),
    });
    const inner = object({ $id: `r${anchor}.json`, $ref: '#/$defs/in', $defs });
    this.defs[`r${anchor}`] = inner;
    this.targets.push(inner.$id);
  }

  flat(v) {
    const s = object();
    this.type(s, v);
    return s;
  }

  note(s, v) {
    const r = this.r;
    switch (r.int(6)) {
    case 0: s.title = 't'; break;
    case 1: s.default = copy(v); break;
    case 2: s.format = r.pick(FORMATS); break;
    case 3: s['x-note'] = copy(v); break;
    case 4: if (this.at_least('draft-07')) s.$comment = 'c'; break;
    default: if (this.at_least('draft-07')) { s.contentEncoding = 'base64'; s.contentMediaType = 'application/json'; }
    }
  }

  number(s, v) {
    const r = this.r, near = () => new Num(r.chance(0.7) ? v.text : respell(r, v.text));
    const beyond = (by) => (/^-?\d{1,15}$/.test(v.text) && r.chance(0.8) ? new Num(`${Number(v.text) + by}`) : near());
    switch (r.int(5)) {
    case 0: s.minimum = near(); break;
    case 1: s.maximum = near(); break;
    case 2: this.exclusive(s, 'minimum', 'exclusiveMinimum', beyond(-1)); break;
    case 3: this.exclusive(s, 'maximum', 'exclusiveMaximum', beyond(1)); break;
    default: s.multipleOf = new Num(r.pick(STEPS));
    }
  }

  // In draft-04 a flag beside the bound.
  exclusive(s, bound, name, n) {
    s[this.age ? name : bound] = n;
    if (!this.age) s[name] = this.r.chance(0.7);
  }

  string(s, v) {
    const r = this.r, count = [...v].length;
    const near = (by) => this.count(Math.max(0, r.chance(0.85) ? count + by * r.int(3) : count - by));
    switch (r.int(4)) {
    case 0: s.minLength = near(-1); break;
    case 1: s.maxLength = near(1); break;
    default: s.pattern = this.pattern(v);
    }
  }

  count(n) { return new Num(this.r.chance(0.1) && this.age ? `${n}.0` : `${n}`); }

  pattern(v) {
    const r = this.r;
    if (r.chance(0.01)) return r.pick(BROKEN_PATTERNS);
    for (let i = 0; i < 6; i++) {
      const p = r.pick(PATTERNS);
      if (new RegExp(p, 'u').test(v)) return p;
    }
    return r.pick(PATTERNS);
  }

  array(s, v, depth) {
    const r = this.r, at = r.int(v.length + 1), child = () => (v.length ? r.pick(v) : value(r, 1));
    switch (r.int(8)) {
    case 0: s.minItems = this.count(Math.max(0, v.length + (r.chance(0.1) ? 1 : -r.int(3)))); break;
    case 1: s.maxItems = this.count(v.length + r.int(3)); break;
    case 2: s.uniqueItems = r.chance(0.9); break;
    case 3: case 4: this.items(s, v, at, depth); break;
    case 5:
      if (!this.at_least('draft-06')) break;
      s.contains = this.child(child(), depth);
      if (this.age >= 3 && r.chance(0.5)) s.minContains = this.count(r.int(3));
      if (this.age >= 3 && r.chance(0.4)) s.maxContains = this.count(r.int(4));
      break;
    default:
      if (this.age < 3) break;
      s.unevaluatedItems = r.chance(0.5) ? false : this.child(child(), depth);
      if (r.chance(0.6)) this.items(s, v, at, depth);
      if (r.chance(0.6)) this.logic(s, v, depth);
    }
  }

  items(s, v, at, depth) {
    const r = this.r, list = v.slice(0, at).map((x) => this.child(x, depth));
    const rest = () => this.child(at < v.length ? r.pick(v.slice(at)) : value(r, 1), depth);
    if (!list.length || r.chance(0.3)) {
      s.items = this.child(v.length ? r.pick(v) : value(r, 1), depth);
    } else if (this.age === 4) {
      s.prefixItems = list;
      if (r.chance(0.5)) s.items = rest();
    } else {
      s.items = list;
      if (r.chance(0.6)) s.additionalItems = rest();
    }
  }

  object(s, v, depth) {
    const r = this.r, keys = Object.keys(v), key = () => (keys.length && r.chance(0.85) ? r.pick(keys) : name(r));
    switch (r.int(11)) {
    case 0:
      s.required = [...new Set([...r.some(keys, 0.6), ...r.some([name(r)], 0.15)])];
      if (!this.age && !s.required.length) delete s.required;
      break;
    case 1: s.minProperties = this.count(Math.max(0, keys.length + (r.chance(0.1) ? 1 : -r.int(3)))); break;
    case 2: s.maxProperties = this.count(keys.length + r.int(3)); break;
    case 3: case 4: case 5: this.properties(s, v, depth); break;
    case 6: this.pattern_properties(s, v, depth); break;
    case 7:
      if (this.age) s.propertyNames = r.chance(0.8) ? object({ pattern: this.pattern(key()) }) : this.child(key(), depth);
      break;
    case 8: this.dependent(s, v, key, depth); break;
    default:
      if (this.age < 3) break;
      this.unevaluated(s, v, depth);
    }
  }

  properties(s, v, depth) {
    const r = this.r, keys = [...r.some(Object.keys(v), 0.6), ...r.some([name(r), name(r)], 0.3)];
    s.properties = object();
    for (const k of keys) s.properties[k] = this.child(k in v ? v[k] : value(r, 1), depth);
    if (r.chance(0.3)) this.pattern_properties(s, v, depth);
    if (r.chance(0.3)) {
      const left = Object.keys(v).filter((k) => !keys.includes(k));
      if (!left.length && r.chance(0.7)) s.additionalProperties = false;
      else s.additionalProperties = this.child(left.length ? v[r.pick(left)] : value(r, 1), depth);
    }
  }

  pattern_properties(s, v, depth) {
    const r = this.r, keys = Object.keys(v);
    s.patternProperties = object();
    for (let n = 1 + r.int(2); n > 0; n--) {
      const k = keys.length ? r.pick(keys) : name(r);
      s.patternProperties[this.pattern(k)] = this.child(k in v ? v[k] : value(r, 1), depth);
    }
  }

  dependent(s, v, key, depth) {
    const r = this.r, names = () => [...new Set([key(), ...r.some([key(), name(r)], 0.4)])];
    const one = () => object({ [key()]: names() });
    if (this.age < 3) s.dependencies = r.chance(0.5) ? one() : object({ [key()]: this.schema(v, depth - 1) });
    else if (r.chance(0.5)) s.dependentRequired = one();
    else s.dependentSchemas = object({ [key()]: this.schema(v, depth - 1) });
    const has_boolean = Object.values(s.dependencies ?? {}).some((d) => typeof d === 'boolean');
    if (this.age === 0 && has_boolean) delete s.dependencies;
  }

  unevaluated(s, v, depth) {
    const r = this.r, keys = Object.keys(v);
    for (let n = r.int(3); n > 0; n--) this[r.pick(['properties', 'logic', 'reference'])](s, v, depth);
    if (r.chance(0.5)) {
      s.unevaluatedProperties = false;
      if (r.chance(0.6)) {
        s.properties ??= object();
        for (const k of keys) s.properties[k] ??= r.chance(0.9) ? true : this.child(v[k], depth);
      }
    } else {
      s.unevaluatedProperties = this.child(keys.length ? v[r.pick(keys)] : value(r, 1), depth);
    }
  }

  root(v) {
    let s = object();
    for (let n = 1 + this.r.int(5); n > 0; n--) this.group(s, this.r.chance(0.985) ? v : value(this.r, 1), 4);
    if (this.age === 0) s = without_booleans(s);
    const made = object({ $schema: DRAFTS[this.draft] });
    const named = this.r.chance(0.5) || Object.values(this.defs).some((d) => d.$id || d.id);
    if (named) made[this.age ? '$id' : 'id'] = `${this.base}root.json`;
    if (this.recursive) made.$recursiveAnchor = true;
    if (this.node) made.$dynamicAnchor = 'node';
    Object.assign(made, s);
    /* Beside a $ref of an older draft nothing counts, an identifier neither. */
    if (made.$ref && this.age < 3) {
      made.allOf = [object({ $ref: made.$ref })];
      delete made.$ref;
    }
    if (Object.keys(this.defs).length) made[this.defs_name] = this.age ? this.defs : without_booleans(this.defs);
    return made;
  }
}

// Draft-04 has no schemas true and false.
function without_booleans(s) {
  const DATA = ['enum', 'default', 'x-note', 'uniqueItems', 'exclusiveMinimum', 'exclusiveMaximum'];
  const walk = (v, of_names) => {
    if (typeof v === 'boolean') return v ? object() : object({ not: object() });
    if (Array.isArray(v)) return v.map((x) => walk(x, false));
    if (!is_object(v)) return v;
    const made = object();
    for (const k of Object.keys(v)) {
      const is_map = ['properties', 'patternProperties', 'definitions', 'dependencies'].includes(k);
      const stays = DATA.includes(k) || (k.startsWith('additional') && typeof v[k] === 'boolean');
      made[k] = !of_names && stays ? v[k] : walk(v[k], !of_names && is_map);
    }
    return made;
  };
  return walk(s, false);
}

// One keyword's value that the meta-schema refuses, mostly.
function spoil(r, s) {
  const places = [];
  const walk = (v) => {
    if (Array.isArray(v)) v.forEach(walk);
    for (const k of is_object(v) ? Object.keys(v) : []) {
      if (['$schema', 'enum', 'const', 'default'].includes(k)) continue;
      places.push([v, k]);
      walk(v[k]);
    }
  };
  walk(s);
  if (!places.length) return;
  const [where, key] = r.pick(places);
  where[key] = r.pick([new Num('-1'), new Num('1.5'), 'x', null, [], ['a', 'a'], object(), [new Num('1')], true,
    object({ type: 'objekt' }), r.pick(BROKEN_PATTERNS)]);
}

// { draft, schema, documents }
export function pairs(seed, count) {
  const r = new Random(seed);
  const draft = r.pick(['2020-12', '2020-12', '2020-12', '2019-09', '2019-09', 'draft-07', 'draft-07', 'draft-06', 'draft-04']);
  let v = value(r, 3);
  while (!Array.isArray(v) && !is_object(v) && r.chance(0.85)) v = value(r, 3);
  const schema = new Maker(r, draft, `https://t.example/${seed}/`).root(v);
  if (r.chance(0.04)) spoil(r, schema);
  const documents = [v];
  while (documents.length < count) {
    if (r.chance(0.4)) documents.push(reword(r, v));
    else documents.push(r.chance(0.05) ? value(r, 3) : mutate(r, r.pick(documents.slice(0, 2))));
  }
  return { draft, schema, documents };
}
