// A real crib for the clients: a store in a folder of its own, its commands, its daemon, and what they leave behind.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const build = process.env.TOOLCRIB_BUILDDIR ?? '.';
export const source = process.env.TOOLCRIB_SRCDIR ?? '.';
export const folder = mkdtempSync(join(tmpdir(), 'toolcrib-clients-'));
const run = promisify(execFile);
export const store = join(folder, 'store');
export const env = { ...process.env, TOOLCRIB_RUN: join(build, 'toolcrib-run') };
let daemon;

export const counts = { passed: 0, failed: 0 };

// One named check; a failure is said and counted.
export async function check(title, body) {
  try {
    await body();
    counts.passed++;
    console.log(`ok ${title}`);
  } catch (error) {
    counts.failed++;
    console.log(`not ok ${title}\n${error.stack ?? error}`);
  }
}

export async function until(what, condition, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const got = await condition();
    if (got) return got;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

// A command that must succeed; its standard output.
export async function crib(...words) {
  return (await run(join(build, 'toolcrib'), ['--store', store, ...words], { env })).stdout;
}

// Lines for a shell whose home and folder is dir; each must succeed.
export async function type(text, dir) {
  const path = `${build}:${process.env.PATH}`;
  await run('/bin/sh', ['-ec', text], { cwd: dir, env: { ...env, HOME: dir, PATH: path, TOOLCRIB_STORE: store } });
}

export async function rows(...words) {
  return (await crib('--json', ...words)).split('\n').filter(line => line).map(line => JSON.parse(line));
}

export async function key(principal) {
  return (await crib('key', 'create', principal)).match(/tck_\w+/)[0];
}

// Add or replace what these documents define, by the command of this noun.
export async function addDocuments(noun, ...documents) {
  const file = join(folder, `${noun}.yaml`);
  writeFileSync(file, documents.join('---\n'));
  await crib(noun, 'add', file);
}

export const addTools = (...documents) => addDocuments('tool', ...documents);

// Example tools as they are installed; change() may edit a document first.
export async function addExamples(names, change = text => text) {
  const examples = join(folder, 'examples');
  await run(join(source, 'contrib/examples/install'), [examples]);
  await addTools(...names.map(name => change(readFileSync(join(examples, `${name}.yaml`), 'utf8'))));
}

// Start the daemon with these further keys; the address of its HTTP listener.
export async function start(more = '') {
  const config = join(folder, 'toolcribd.yaml');
  writeFileSync(config, 'listeners:\n- {transport: http, address: "127.0.0.1:0"}\n' + more);
  daemon = spawn(join(build, 'toolcribd'), ['--store', store, '-c', config], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  daemon.stderr.on('data', data => { log += data; });
  return until('a daemon that answers', async () => {
    assert.equal(daemon.exitCode, null, log);
    const status = await rows('status').catch(() => []);
    return status[0]?.listeners?.find(listener => listener.transport === 'http')?.address;
  });
}

export function stop() {
  daemon?.kill();
  // Servers that stop, or that a host has left, still write their last words, into what is being removed.
  for (let tries = 100; ; tries--) {
    try {
      return rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      if (error.code !== 'ENOTEMPTY' || tries === 0)
        throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
  }
}

// Is a process of this command line alive, whoever started it?
export function runs(...argv) {
  return readdirSync('/proc').some(pid => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `${argv.join('\0')}\0`;
    } catch {
      return false;     // it has ended meanwhile
    }
  });
}
