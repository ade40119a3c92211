// The validators: ours in a process of its own, ajv, and a third that is asked where those two differ.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import Ajv from 'ajv';
import Ajv2019 from 'ajv/dist/2019.js';
import Ajv2020 from 'ajv/dist/2020.js';
import Ajv04 from 'ajv-draft-04';
import { createRequire } from 'node:module';
import { registerSchema, unregisterSchema, validate } from '@hyperjump/json-schema/draft-2020-12';
import '@hyperjump/json-schema/draft-2019-09';
import '@hyperjump/json-schema/draft-07';
import '@hyperjump/json-schema/draft-06';
import '@hyperjump/json-schema/draft-04';
import { text } from './json.mjs';

const RENEW = 2000;                     // schemas, then ajv starts anew: it keeps something of each

const draft6 = createRequire(import.meta.url)('ajv/dist/refs/json-schema-draft-06.json');

// Each judge's ask(draft, schema, documents) promises { refused: why } or { verdicts: [...] }.
export class Ours {
  constructor(program) {
    this.child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface({ input: this.child.stdout, crlfDelay: Infinity })[Symbol.asyncIterator]();
  }

  async ask(draft, schema, documents) {
    this.child.stdin.write(`${[schema, ...documents].map(text).join('\t')}\n`);
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`our validator ended at ${text(schema)}`);
    return value.startsWith('refused\t') ? { refused: value.slice(8) } : { verdicts: value ? value.split(' ') : [] };
  }

  async close() {
    this.child.stdin.end();
    if (this.child.exitCode === null) await once(this.child, 'exit');
  }
}

// As near to the specification as its options bring it: older drafts do not look beside a $ref.
export class Theirs {
  constructor() { this.renew(); }

  renew() {
    const options = { strict: false, validateFormats: false, logger: false, ownProperties: true };
    const old = { ...options, ignoreKeywordsWithRef: true };
    this.by_draft = {
      '2020-12': new Ajv2020.default(options),
      '2019-09': new Ajv2019.default(options),
      'draft-07': new Ajv.default(old),
      'draft-06': new Ajv.default(old).addMetaSchema(draft6),
      'draft-04': new Ajv04.default(old),
    };
    this.left = RENEW;
    this.known = {};
    for (const [draft, ajv] of Object.entries(this.by_draft)) {
      ajv.validateSchema({});
      this.known[draft] = {
        schemas: new Set(Object.keys(ajv.schemas)), refs: new Set(Object.keys(ajv.refs)), cache: new Set(ajv._cache.keys()),
      };
    }
  }

  // What a schema has left behind must not meet the next one.
  forget(draft) {
    const ajv = this.by_draft[draft], known = this.known[draft];
    for (const table of ['schemas', 'refs']) {
      for (const key of Object.keys(ajv[table])) if (!known[table].has(key)) delete ajv[table][key];
    }
    for (const key of ajv._cache.keys()) if (!known.cache.has(key)) ajv._cache.delete(key);
    ajv._compilations.clear();
  }

  async ask(draft, schema, documents) {
    if (!this.left--) this.renew();
    const ajv = this.by_draft[draft];
    try {
      const check = ajv.compile(JSON.parse(text(schema)));
      return { verdicts: documents.map((d) => this.run(check, d)) };
    } catch (error) {
      return { refused: error.message };
    } finally {
      this.forget(draft);
    }
  }

  run(check, document) {
    try {
      return check(JSON.parse(text(document))) ? 'valid' : 'invalid';
    } catch (error) {
      return `threw ${error.constructor.name}`;
    }
  }
}

// Of a root with a $ref the third forgets the definitions too, in the drafts that ignore what stands beside.
function unwrap(draft, schema) {
  if (!draft.startsWith('draft') || typeof schema.$ref !== 'string') return schema;
  const made = { $schema: schema.$schema, allOf: [{ $ref: schema.$ref }] };
  if (schema.definitions) made.definitions = schema.definitions;
  return made;
}

export class Third {
  count = 0;

  async ask(draft, schema, documents) {
    const parsed = unwrap(draft, JSON.parse(text(schema))), uri = `https://third.example/${this.count++}`;
    try {
      registerSchema(parsed, uri);
      const check = await validate(uri);
      return { verdicts: documents.map((d) => (check(JSON.parse(text(d))).valid ? 'valid' : 'invalid')) };
    } catch (error) {
      return { refused: error.message };
    } finally {
      unregisterSchema(uri);
    }
  }
}
