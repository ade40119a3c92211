// The same judge as ../validate.c with the validator of somebody else: each line of standard input is FILE#POINTER, a
// tab and a JSON document; each gets one line, "valid" or "invalid: " and why.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const FORMATS = ['uri', 'uri-template'];        // "byte" of the older files is no format of JSON Schema
const options = { strict: false, logger: false, allErrors: false };
const files = new Map(), schemas = new Map();

function validator(file) {
  if (!files.has(file)) {
    const document = JSON.parse(readFileSync(file, 'utf8'));
    const ajv = new (document.$schema.includes('2020-12') ? Ajv2020.default : Ajv.default)(options);
    addFormats.default(ajv, FORMATS);
    files.set(file, ajv.addSchema(document, 'mcp'));
  }
  return files.get(file);
}

function compiled(reference) {
  if (!schemas.has(reference)) {
    const [file, pointer] = reference.split('#');
    schemas.set(reference, validator(file).compile({ $ref: `mcp#${pointer}` }));
  }
  return schemas.get(reference);
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const tab = line.indexOf('\t');
  const validate = compiled(line.slice(0, tab));
  const [error] = validate(JSON.parse(line.slice(tab + 1))) ? [] : validate.errors;
  console.log(error ? `invalid: [${error.instancePath}: ${error.message}]` : 'valid');
}
