// The list of parts that contrib/sbom writes of the real programs, read by the validator of the CycloneDX project against its own
// schema of the version that the list names: valid, with licences; the validator sees what is none.
// Run by `make check-clients`, which sets TOOLCRIB_BUILDDIR, TOOLCRIB_SRCDIR and installs the pinned packages (OPERATE OP-722).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { build, check, counts, env, source } from './crib.mjs';

if (!existsSync('/usr/bin/dpkg-query')) {
  console.log('sbom: skipped, needs dpkg-query, which Debian has');
  process.exit(77);
}
const programs = ['toolcrib', 'toolcribd', 'toolcrib-sign', 'toolcrib-verify'].map(name => `${build}/${name}`);
const text = execFileSync(`${source}/contrib/sbom`, ['1.2.3', ...programs], { encoding: 'utf8', env: { ...env, SOURCE_DATE_EPOCH: '1000000000' } });
const list = JSON.parse(text);
const judge = value => new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(JSON.stringify(value));

await check('the list is valid', async () => {
  assert.equal(list.specVersion, '1.6');
  assert.equal(await judge(list), null);
});
await check('each part has licences, and those of SPDX are some', async () => {
  for (const part of list.components)
    assert.ok(part.licenses.length > 0, part.name);
  const ids = list.components.flatMap(part => part.licenses.map(one => one.license.id)).filter(Boolean);
  assert.ok(ids.includes('MIT') && ids.includes('Apache-2.0') && ids.includes('Zlib'), ids.join(' '));
});
await check('what is no list, or names no licence of SPDX, is seen', async () => {
  const wrong = [change => { change.components[0].licenses[0].license = { id: 'Expat' }; },
    change => { change.components[0].hashes[0].content = 'x'; }, change => { change.components[0].type = 'thing'; },
    change => { change.components.push(change.components[0]); }, change => { change.surprise = 1; }];
  for (const edit of wrong) {
    const copy = structuredClone(list);
    edit(copy);
    assert.notEqual(await judge(copy), null, edit.toString());
  }
});
console.log(`sbom: ${counts.passed} passed, ${counts.failed} failed, ${list.components.length} parts`);
process.exit(counts.failed ? 1 : 0);
