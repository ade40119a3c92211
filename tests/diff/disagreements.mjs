// Why our validator and ajv may differ, each with its proof.  when(d) looks at the smallest schema and document that show
// it: d.ours and d.theirs are "valid", "invalid", "limit", "threw ...", or for the schema "taken" and "refused"; d.third
// is what the third validator says; d.keywords are the schema's.  The first rule that fits counts.  A rule without d.third
// says in its reason why nobody is asked.
import { Num, decimal, is_object } from './json.mjs';

const AROUND = ['$schema', '$id', 'id', '$defs', 'definitions'];
const only = (d, ...allowed) => [...d.keywords].every((k) => AROUND.includes(k) || allowed.includes(k));
const has = (d, ...wanted) => wanted.every((k) => d.keywords.has(k));
const old = (d) => d.draft.startsWith('draft');
const with_us = (d) => d.third === d.ours || (d.third === 'refused' && d.ours === 'limit');
const children = (v) => (Array.isArray(v) ? v : is_object(v) ? Object.values(v) : []);
const any = (v, test) => test(v) || children(v).some((x) => any(x, test));
const is_judged = (d) => ['valid', 'invalid'].includes(d.theirs);
const COMPARING = ['const', 'enum', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'uniqueItems', 'type', 'not'];

// Numbers that a double does not hold.
const is_inexact = (v) => {
  if (!(v instanceof Num)) return false;
  const [digits, exponent] = decimal(v.text), shown = Number(v.text);
  if (!Number.isFinite(shown)) return true;
  const [d, e] = decimal(shown.toString().replace('e+', 'e')), least = Math.min(exponent, e);
  return digits * 10n ** BigInt(exponent - least) !== d * 10n ** BigInt(e - least);
};
const is_multiple = (v, step) => {
  const [a, x] = decimal(v.text), [b, y] = decimal(step.text), least = Math.min(x, y);
  return (a * 10n ** BigInt(x - least)) % (b * 10n ** BigInt(y - least)) === 0n;
};

// A number of the document by a multipleOf of the schema: doubles, divided as ajv does, say something else than decimals.
const is_divided_wrongly = (d) => {
  const steps = [], numbers = [];
  any(d.schema, (v) => { if (is_object(v) && v.multipleOf instanceof Num) steps.push(v.multipleOf); });
  any(d.document, (v) => { if (v instanceof Num && Number(v.text)) numbers.push(v); });
  const wrong = (v, step) => {
    const quotient = Number(v.text) / Number(step.text);
    return is_multiple(v, step) !== (quotient === parseInt(quotient));
  };
  const single = new Set(steps.map((n) => n.text)).size === 1 && new Set(numbers.map((n) => n.text)).size === 1;
  return steps.some((step) => numbers.some((v) => wrong(v, step))) && (single || with_us(d));
};

export const rules = [
  {
    name: 'a circle of references',
    reason: 'References that come back to the same value are refused when the schema is compiled; ajv compiles ' +
      'them and ends with a full stack. The third recurses as well and is not asked.',
    section: 'Core 2020-12, 7.1 (an infinite loop of references is to be detected)',
    right: 'ours',
    when: (d) => d.ours === 'refused' &&
      d.theirs === 'taken' &&
      /^refers to itself without going into the value/.test(d.our_reason),
  },
  {
    name: 'a circle that dynamic references close',
    reason: 'Where a dynamic reference leads is only known when it runs. Ours stops before the circle when an ' +
      'alternative in front of it fits, else when the budget is spent, and then the value counts as ' +
      'invalid. ajv fills the stack, and so does the third.',
    section: 'Core 2020-12, 7.1',
    right: 'ours',
    when: (d) => d.theirs === 'threw RangeError' &&
      (has(d, '$dynamicRef') || has(d, '$recursiveRef')) &&
      d.third === 'refused',
  },
  {
    name: 'a dynamic reference that ajv follows in a circle',
    reason: 'ajv knows the dynamic anchors of the schemas around only; for any other target it calls the same ' +
      'function again, until the stack is full.',
    section: 'Core 2020-12, 8.2.3.2',
    right: 'ours',
    when: (d) => d.theirs === 'threw RangeError' &&
      (has(d, '$dynamicRef') || has(d, '$recursiveRef')) &&
      with_us(d),
  },
  {
    name: 'a dynamic reference to the wrong anchor',
    reason: 'ajv takes the root, or an anchor around, where the outermost dynamic anchor of this name is another ' +
      'one.',
    section: 'Core 2020-12, 8.2.3.2; 2019-09, 8.2.4.2',
    right: 'ours',
    when: (d) => (has(d, '$dynamicRef') || has(d, '$recursiveRef')) && is_judged(d) && with_us(d),
  },
  {
    name: 'a reference inside of an embedded resource',
    reason: 'It begins at that resource; ajv looks for its target in the document around, comes back to where it was ' +
      'and fills the stack while it compiles.',
    section: 'Core 2020-12, 8.2.1 and 9.3',
    right: 'ours',
    when: (d) => d.ours === 'taken' && d.theirs === 'refused' && has(d, '$id', '$ref') &&
      /^Maximum call stack size exceeded/.test(d.their_reason) && with_us(d),
  },
  {
    name: 'the same dynamic anchor in two resources',
    reason: 'Anchors belong to their resource; ajv keeps the dynamic ones of a whole document in one table.',
    section: 'Core 2020-12, 8.2.2',
    right: 'ours',
    when: (d) => d.ours === 'taken' &&
      d.theirs === 'refused' &&
      has(d, '$dynamicAnchor', '$id') &&
      /resolves to more than one schema/.test(d.their_reason) &&
      with_us(d),
  },
  {
    name: 'a subschema that ajv does not look at',
    reason: 'We compile every subschema and resolve every reference and pattern in it; ajv, and sometimes the ' +
      'third, leave out definitions that nothing refers to and whatever cannot change the verdict.',
    section: 'Core 2020-12, 8.2.3.1; Validation 2020-12, 6.3.3',
    right: 'ours',
    when: (d) => d.ours === 'refused' &&
      d.theirs === 'taken' &&
      /leads nowhere in this schema|leads out of the schema|not a pattern/.test(d.our_reason),
  },
  {
    name: 'beside a $ref of an older draft',
    reason: 'Up to draft-07 what stands beside a $ref is ignored. ajv, told so, still checks it against the ' +
      'meta-schema, as the third does, and applies type.',
    section: 'draft-07 Core, 8.3',
    right: 'ours',
    when: (d) => old(d) && any(d.schema, (v) => is_object(v) && '$ref' in v && Object.keys(v).length > 1) &&
      ((has(d, 'type') && with_us(d)) || /^schema is invalid/.test(d.their_reason)),
  },
  {
    name: 'true and false as schemas in draft-04',
    reason: 'Draft-04 has them for additionalItems and additionalProperties only; we take them everywhere, with the ' +
      'meaning of the later drafts.',
    section: 'draft-04 Validation, 5.3 to 5.6',
    right: 'ajv, by the letter',
    when: (d) => d.draft === 'draft-04' && d.ours === 'taken' && d.theirs === 'refused' &&
      /^schema is invalid: data\S* must be (object|array)/.test(d.their_reason) && any(d.schema, (v) => typeof v === 'boolean'),
  },
  {
    name: 'an empty list of items',
    reason: 'The text of the older drafts allows it, their meta-schemas do not; it has no effect.',
    section: 'draft-07 Validation, 6.4.1; 2019-09 Core, 9.3.1.1',
    right: 'both',
    when: (d) => d.draft !== '2020-12' &&
      d.ours === 'taken' &&
      d.theirs === 'refused' &&
      /^schema is invalid: data\S*\/items must/.test(d.their_reason) &&
      any(d.schema, (v) => is_object(v) && Array.isArray(v.items) && v.items.length === 0),
  },
  {
    name: 'a number that a double does not hold',
    reason: 'We compare exactly, JavaScript rounds both sides to a double before.',
    section: 'Core 2020-12, 4.2.2',
    right: 'ours',
    when: (d) => is_judged(d) &&
      only(d, ...COMPARING) &&
      (any(d.schema, is_inexact) || any(d.document, is_inexact)),
  },
  {
    name: 'multipleOf beyond a double',
    reason: 'We divide exactly, ajv and the third divide doubles. Proof: the texts of a number and of a ' +
      'multipleOf are divided as decimals and as ajv does it, and the answers differ; where there is more ' +
      'than one of them the third sides with us.',
    section: 'Validation 2020-12, 6.2.1',
    right: 'ours',
    when: is_divided_wrongly,
  },
  {
    name: 'code that ajv generates wrongly',
    reason: 'The function that ajv has made of the schema reads what it has not defined: it counts ' +
      'members that a branch has evaluated, though another way leads around that branch. (Where multipleOf ' +
      'is left the third may divide wrongly.)',
    section: 'Core 2020-12, 11.3',
    right: 'ours',
    when: (d) => /^threw (Type|Reference)Error$/.test(d.theirs) &&
      (with_us(d) || is_divided_wrongly({ ...d, third: d.ours })),
  },
  {
    name: 'a backslash in front of punctuation',
    reason: 'Patterns in the wild have \\- outside of a class, so we take a backslash in front of any ' +
      'punctuation; with the u flag JavaScript does not.',
    section: 'ECMA-262, 22.2.1 (IdentityEscape); Core 2020-12, 6.4 (SHOULD)',
    right: 'ajv, by the letter',
    when: (d) => d.ours === 'taken' &&
      d.theirs === 'refused' &&
      /^Invalid regular expression: .*: Invalid escape$/.test(d.their_reason) &&
      /\\\\[!-\/:-@`{-~]/.test(d.text),
  },
  {
    name: 'names that JavaScript objects have of themselves',
    reason: 'ajv asks the object for a property of this name and is answered by its prototype, or leaves ' +
      '__proto__ out. (Where multipleOf is left the third may divide wrongly.)',
    section: 'Core 2020-12, 4.2.1',
    right: 'ours',
    when: (d) => /"(__proto__|constructor|length)"/.test(d.text) && (with_us(d) || has(d, 'multipleOf')),
  },
  {
    name: 'an empty name',
    reason: 'ajv does not miss a required property whose name is empty.',
    section: 'Validation 2020-12, 6.5.3',
    right: 'ours',
    when: (d) => any(d.schema, (v) => v === '') && with_us(d),
  },
  {
    name: 'contains beside a list of items',
    reason: 'ajv does not miss an element for contains beside items or prefixItems with a list.',
    section: 'draft-07 Validation, 6.4.6; Core 2020-12, 10.3.1.3',
    right: 'ours',
    when: (d) => has(d, 'contains') && (has(d, 'items') || has(d, 'prefixItems')) && with_us(d),
  },
  {
    name: 'contains and unevaluatedItems in 2019-09',
    reason: 'Only from 2020-12 on has an element that contains has found been evaluated; ajv and the third take ' +
      'the newer rule for both.',
    section: 'Core 2019-09, 9.3.1.3; 2020-12, 11.2',
    right: 'ours',
    when: (d) => d.draft === '2019-09' && has(d, 'contains', 'unevaluatedItems') && is_judged(d),
  },
  {
    name: 'what is evaluated',
    reason: 'ajv forgets members or elements that another keyword has evaluated, or counts those of an ' +
      'alternative that does not fit.',
    section: 'Core 2020-12, 11.2 and 11.3',
    right: 'ours',
    when: (d) => (has(d, 'unevaluatedItems') || has(d, 'unevaluatedProperties')) && with_us(d),
  },
];
