// make check-schema-diff: our validator and ajv on generated pairs of a schema and a document.  Whatever they judge
// differently is made as small as it gets, shown to a third validator and looked up in disagreements.mjs; what no rule
// there explains fails the run.  Usage: node diff.mjs JUDGE PAIRS SEED
import { pairs } from './generate.mjs';
import { Ours, Theirs, Third } from './judges.mjs';
import { keywords, shrink } from './shrink.mjs';
import { text } from './json.mjs';
import { rules } from './disagreements.mjs';

const [program, wanted, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const DOCUMENTS = 6, SHOWN = 10;
const ours = new Ours(program), theirs = new Theirs(), third = new Third();
const figures = { schemas: 0, pairs: 0, same: 0, valid: 0, refused: 0, unread: 0 };
const explained = new Map(rules.map((rule) => [rule.name, 0])), unexplained = [];

// What the two say about one pair; undefined where they agree or the document is none.
async function difference(draft, schema, document) {
  const documents = document === undefined ? [] : [document];
  const [a, b] = await Promise.all([ours.ask(draft, schema, documents), theirs.ask(draft, schema, documents)]);
  const taken = (answer) => (answer.refused ? 'refused' : 'taken');
  if (document === undefined && taken(a) === taken(b)) return undefined;
  if (document === undefined) return { ours: taken(a), theirs: taken(b), a, b };
  if (a.refused || b.refused || a.verdicts[0] === 'unread' || a.verdicts[0] === b.verdicts[0]) return undefined;
  return { ours: a.verdicts[0], theirs: b.verdicts[0], a, b };
}

// A refusal without what it names, so that one is not made smaller into another.
const kind = (answer) => (answer.refused ?? '').replace(/"[^"]*"| at \S*$|[^a-zA-Z ].*/g, '');

// Not asked about circles: it would not come back.
async function third_opinion(draft, { schema, document }, { a, ours }) {
  if (/^refers to itself/.test(a.refused) || ours === 'limit') return 'refused';
  const answer = await third.ask(draft, schema, document === undefined ? [] : [document]);
  return 'refused' in answer ? 'refused' : answer.verdicts[0] ?? 'taken';
}

// before: what the last disagreement about this schema came down to.
async function explain(draft, schema, document, number, before) {
  const first = await difference(draft, schema, document);
  const same = (now) => now.ours === first.ours && now.theirs === first.theirs &&
    kind(now.a) === kind(first.a) && kind(now.b) === kind(first.b);
  const alike = async (s, d) => {
    const now = await difference(draft, s, d);
    return now && same(now);
  };
  const count = (rule) => explained.set(rule.name, explained.get(rule.name) + 1);
  /* To overflow a stack takes long, and the document has no part in it. */
  if (first.theirs.startsWith('threw') && before.rule && await alike(before.schema, document)) {
    count(before.rule);
    return;
  }
  const start = before.schema && document !== undefined && await alike(before.schema, document) ? before.schema : schema;
  const least = await shrink(start, document, alike), last = await difference(draft, least.schema, least.document);
  const d = {
    draft, ...least, ours: last.ours, theirs: last.theirs, third: await third_opinion(draft, least, last),
    our_reason: last.a.refused ?? '', their_reason: last.b.refused ?? '',
    keywords: keywords(least.schema), text: text(least.schema),
  };
  const rule = rules.find((one) => one.when(d));
  Object.assign(before, { schema: least.schema, rule });
  if (rule) {
    count(rule);
    return;
  }
  unexplained.push(d);
  if (unexplained.length > SHOWN) return;
  console.log(`unexplained: ${draft}, seed ${number}: ours ${d.ours}, ajv ${d.theirs}, third ${d.third}\n  ${d.text}`);
  if (d.document !== undefined) console.log(`  ${text(d.document)}`);
  for (const why of [d.our_reason, d.their_reason]) if (why) console.log(`  ${why.slice(0, 300)}`);
}

async function compare(number) {
  const { draft, schema, documents } = pairs(number, Math.min(DOCUMENTS, wanted - figures.pairs));
  const [a, b] = await Promise.all([ours.ask(draft, schema, documents), theirs.ask(draft, schema, documents)]);
  figures.schemas++;
  if (a.refused && b.refused) {
    figures.refused++;
    return;
  }
  if (a.refused || b.refused) {
    figures.pairs++;
    await explain(draft, schema, undefined, number, {});
    return;
  }
  const before = {};
  for (const [i, document] of documents.entries()) {
    if (a.verdicts[i] === 'unread') {
      figures.unread++;
      continue;
    }
    figures.pairs++;
    if (a.verdicts[i] !== b.verdicts[i]) {
      await explain(draft, schema, document, number, before);
      continue;
    }
    figures.same++;
    if (a.verdicts[i] === 'valid') figures.valid++;
  }
}

console.log(`seed ${seed}, ${wanted} pairs`);
for (let number = seed; figures.pairs < wanted; number++) await compare(number);
await ours.close();

console.log(`${figures.schemas} schemas, ${figures.refused} refused by both; ${figures.unread} documents that we do not read`);
console.log(`${figures.pairs} pairs: ${figures.same} judged alike (${figures.valid} valid, ` +
  `${figures.same - figures.valid} invalid), ${figures.pairs - figures.same} differently`);
const line = (count, what) => console.log(`${String(count).padStart(6)}  ${what}`);
for (const { name, right } of rules) if (explained.get(name)) line(explained.get(name), `${name} (right: ${right})`);
line(unexplained.length, 'unexplained');
process.exit(unexplained.length ? 1 : 0);
