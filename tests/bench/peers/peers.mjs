// The same measurement as b_schema.c for ajv and schemasafe.  Usage: node peers.mjs FOLDER PEER
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const [folder, peer] = process.argv.slice(2);
const now = () => Number(process.hrtime.bigint()) / 1e3;

async function compiler() {
  if (peer === 'schemasafe') {
    const { validator } = await import('@exodus/schemasafe');
    return (schema) => validator(schema, { mode: 'spec', isJSON: true, allowUnusedKeywords: true });
  }
  const options = { strict: false, validateFormats: false, logger: false, validateSchema: false };
  const Ajv7 = (await import('ajv')).default;
  const Ajv2020 = (await import('ajv/dist/2020.js')).default;
  return (schema) => {
    const Ajv = (Ajv7.default ?? Ajv7), New = (Ajv2020.default ?? Ajv2020);
    return new (String(schema.$schema).includes('2020-12') ? New : Ajv)(options).compile(schema);
  };
}

const compile = await compiler();
for (const name of readdirSync(folder).sort()) {
  let schema, lines;
  try {
    schema = JSON.parse(readFileSync(join(folder, name, 'schema.json'), 'utf8'));
    lines = readFileSync(join(folder, name, 'instances.jsonl'), 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l));
  } catch {
    continue;
  }
  try {
    const from = now();
    const validate = compile(schema);
    const compile_ms = (now() - from) / 1e3;
    let best = Infinity, wrong = 0;
    for (let spent = 0, warm = 0; spent < 300e3;) {
      const start = now();
      for (const doc of lines) if (!validate(doc)) wrong++;
      const us = now() - start;
      if (warm < 300e3) { warm += us; continue; }
      spent += us;
      best = Math.min(best, us);
    }
    if (wrong) throw new Error('a document is judged wrongly');
    console.log(JSON.stringify({ schema: name, us_per_doc: best / lines.length, compile_ms }));
  } catch (error) {
    console.log(JSON.stringify({ schema: name, error: String(error.message).slice(0, 80) }));
  }
}
