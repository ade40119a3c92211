// Checks a proof of toolcrib's audit log where JavaScript runs: in a browser, and in Node (CONSOLE C-701).  No DOM, no network, nothing of
// toolcrib: the rules are those of contrib/doc/verify.md, and what it prints is what verify.py prints.
//   a record's bytes -> its leaf (RFC 9162, 2.1.1) -> the root of a checkpoint (C2SP tlog-proof, tlog-checkpoint) -> a signed note
//   (C2SP signed-note) -> a key that the reader has from elsewhere
// All that comes in is hostile: each text has a limit, and what is not exactly as it is written down is Refused.

export const PROOF_MAX = 278528;                // bytes of a proof (tlog/proof.h)
export const OPENING_MAX = 32 << 20;            // of what opens a record
export const KEYS_MAX = 1 << 20;
const RECORD_MAX = 131072, NOTE_MAX = 16384, SIGS_MAX = 16, SIG_MAX = 4100, NAME_MAX = 255, PATH_MAX = 64, GROWTH_MAX = 126;
const SIZE_MAX = 1n << 63n, TEXT_MAX = 200, DEPTH_MAX = 64;

// What is given is not what it should be; the message says what is wrong.
export class Refused extends Error {}
const refuse = why => { throw new Refused(why); };

// --- bytes and texts

const encoder = new TextEncoder();
const hex = bytes => Array.from(bytes, b => b.toString(16).padStart(2, "0")).join("");
const unhex = text => Uint8Array.from(text.match(/../g) ?? [], two => parseInt(two, 16));
const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);
const join = (...parts) => {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
};
const utf8 = text => text.isWellFormed() ? encoder.encode(text) : refuse("not a text");
const unutf8 = bytes => {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes); } catch { return refuse("not UTF-8"); }
};
const uint = (value, size) => {                 // big-endian
  const bytes = new Uint8Array(size);
  for (let i = size - 1, rest = BigInt(value); i >= 0; i--, rest >>= 8n) bytes[i] = Number(rest & 255n);
  return bytes;
};
const number = bytes => bytes.length ? BigInt("0x" + hex(bytes)) : 0n;
const sha256 = async bytes => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

function base64(text) {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) refuse("not base64");
  const binary = atob(text);
  return btoa(binary) === text ? Uint8Array.from(binary, c => c.charCodeAt(0)) : refuse("not canonical base64");
}

const decimal = text => /^(?:0|[1-9][0-9]{0,18})$/.test(text) && BigInt(text) < SIZE_MAX ? BigInt(text) : refuse("not a number");

// --- Ed25519: what libsodium refuses and WebCrypto need not (CONSOLE C-706)

const ORDER = (1n << 252n) + 27742317777372353535851937790883648493n, P = (1n << 255n) - 19n;
const little = bytes => number(Uint8Array.from(bytes).reverse());
// y of the points of small order
const SMALL = new Set([0n, 1n, P - 1n, 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
                       0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n]);
const isPoint = bytes => { const y = little(bytes) & ((1n << 255n) - 1n); return y < P && !SMALL.has(y); };

async function isSigned(key, text, signature) {
  if (key.length !== 32 || signature.length !== 64 || little(signature.subarray(32)) >= ORDER || !isPoint(key) ||
      !isPoint(signature.subarray(0, 32)))
    return false;
  const known = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, known, signature, text);
}

// Whether this place has what is needed; what it says is for a person.
export async function missing() {
  if (!globalThis.crypto?.subtle) return "this page is not in a secure context: open it from a file, from localhost, or over https";
  if (!"".isWellFormed) return "this browser is too old: use verify.py, or toolcrib-verify";
  try { await crypto.subtle.importKey("raw", new Uint8Array(32).fill(3), { name: "Ed25519" }, false, ["verify"]); } catch {
    return "this browser knows no Ed25519 (Firefox 129, Safari 17 and Chrome 137 do): use verify.py, or toolcrib-verify";
  }
  return null;
}

// --- keys, notes

const isName = text => /^[^\u0000-\u0020\u007f+\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/.test(text) &&
  utf8(text).length <= NAME_MAX;
const keyId = async (name, key) => hex((await sha256(join(utf8(name), Uint8Array.of(10, 1), key))).subarray(0, 4));

// Name -> key, of all lines that have one: NAME+ID+KEY, as toolcrib audit keys prints them.
export async function parseKeys(text) {
  const keys = new Map();
  if (text.length > KEYS_MAX) refuse("more keys than anybody has");
  for (const line of text.split("\n")) {
    const found = /(\S+)\+([0-9a-f]{8})\+([0-9A-Za-z+/]+=*)(?:\s|$)/.exec(line);
    if (!found) continue;
    const [, name, id, value] = found, data = base64(value);
    if (data.length !== 33 || data[0] !== 1 || !isName(name) || await keyId(name, data.subarray(1)) !== id) refuse(`not a key: ${safe(line)}`);
    keys.set(name, data.subarray(1));
  }
  return keys.size ? keys : refuse("there is no key in it: paste what \"toolcrib audit keys\" has printed");
}

export function parseNote(text) {
  if (utf8(text).length > NOTE_MAX || /[\u0000-\u0009\u000b-\u001f]/.test(text)) refuse("the checkpoint is no signed note");
  const at = text.lastIndexOf("\n\n"), lines = at < 0 ? [] : text.slice(at + 2).split("\n"), signatures = [];
  if (at < 1 || lines.pop() !== "" || lines.length === 0 || lines.length > SIGS_MAX) refuse("the checkpoint is no signed note");
  for (const line of lines) {
    const [dash, name, value, ...more] = line.split(" "), data = more.length || value === undefined ? refuse("not a signature") : base64(value);
    const id = hex(data.subarray(0, 4));
    if (dash !== "\u2014" || !isName(name) || data.length < 5 || data.length > SIG_MAX || signatures.some(s => s.name === name && s.id === id))
      refuse("not a signature");
    signatures.push({ name, id, value: data.subarray(4) });
  }
  const body = text.slice(0, at + 1), [origin, size, root, end, ...more] = body.split("\n");
  if (end !== "" || more.length || !isName(origin)) refuse("the checkpoint is none");
  const note = { body, signatures, origin, size: decimal(size), root: base64(root) };
  return note.root.length === 32 ? note : refuse("the checkpoint is none");
}

// A log that goes on behind a restore is signed as ORIGIN/r/N from there on.
function ofLog(name) {
  const found = /^(.+)\/r\/([1-9][0-9]{0,9})$/s.exec(name);
  return found && Number(found[2]) < 2 ** 32 ? found[1] : name;
}

// The note, signed under its log's name by a key of that log or of the instance whose tenant's log it is.
async function trusted(note, keys) {
  const [, key] = [...keys].find(([name]) => name === ofLog(note.origin) || note.origin.startsWith(name + "/t/")) ?? [];
  const id = key && await keyId(note.origin, key), signature = note.signatures.find(s => s.name === note.origin && s.id === id);
  if (!signature || !await isSigned(key, utf8(note.body), signature.value))
    refuse(`the checkpoint of ${safe(note.origin)} is not signed by a key that you gave`);
  return note;
}

// --- trees (RFC 9162, 2.1.3.2 and 2.1.4.2)

const leafOf = record => sha256(join(Uint8Array.of(0), record));
const node = (left, right) => sha256(join(Uint8Array.of(1), left, right));

async function isIncluded(leaf, index, size, path, root) {
  let last = size - 1n;
  if (index >= size) return false;
  for (const hash of path) {
    if (last === 0n) return false;
    if (index & 1n || index === last) {
      leaf = await node(hash, leaf);
      while (!(index & 1n) && index) { index >>= 1n; last >>= 1n; }
    } else leaf = await node(leaf, hash);
    index >>= 1n;
    last >>= 1n;
  }
  return last === 0n && same(leaf, root);
}

async function isConsistent(first, second, path, old, now) {
  if (first === 0n) return path.length === 0;
  if (first >= second || path.length === 0) return first === second && same(old, now) && path.length === 0;
  if ((first & (first - 1n)) === 0n) path = [old, ...path];
  let one = first - 1n, two = second - 1n, left, right;
  while (one & 1n) { one >>= 1n; two >>= 1n; }
  left = right = path[0];
  for (const hash of path.slice(1)) {
    if (two === 0n) return false;
    if (one & 1n || one === two) {
      [left, right] = [await node(hash, left), await node(hash, right)];
      while (!(one & 1n) && one) { one >>= 1n; two >>= 1n; }
    } else right = await node(right, hash);
    one >>= 1n;
    two >>= 1n;
  }
  return two === 0n && same(left, old) && same(right, now);
}

// --- proofs

const hashes = (lines, most) => lines.length > most ? refuse(`more than ${most} hashes`) :
  lines.map(line => { const hash = base64(line); return hash.length === 32 ? hash : refuse("not a hash"); });
const cut = (text, what) => {
  const at = text.indexOf("\n\n");
  if (text.length > PROOF_MAX || utf8(text).length > PROOF_MAX || at < 0) refuse(`not ${what}`);
  return [text.slice(0, at).split("\n"), text.slice(at + 2)];
};

// { record, index, note }, of what "toolcrib audit proof" has printed.
export async function checkProof(text, keys) {
  const [[format, extra, index, ...lines], rest] = cut(text, "a proof");
  if (format !== "c2sp.org/tlog-proof@v1" || !extra?.startsWith("extra ") || !index?.startsWith("index ")) refuse("not a proof");
  const proof = { record: base64(extra.slice(6)), index: decimal(index.slice(6)) };
  if (proof.record.length === 0 || proof.record.length > RECORD_MAX) refuse("not a proof");
  const path = hashes(lines, PATH_MAX);
  proof.note = await trusted(parseNote(rest), keys);
  if (!await isIncluded(await leafOf(proof.record), proof.index, proof.note.size, path, proof.note.root)) refuse("the record is not in the log");
  return proof;
}

// The newer checkpoint, of what "toolcrib audit consistency" has printed; old: the one that was kept.
export async function checkGrowth(text, old, keys) {
  const [[first, ...lines], rest] = cut(text, "a proof of consistency");
  const size = first.startsWith("old ") ? decimal(first.slice(4)) : refuse("not a proof of consistency"), path = hashes(lines, GROWTH_MAX);
  const before = await trusted(parseNote(old), keys), note = await trusted(parseNote(rest), keys);
  if (before.origin !== note.origin) refuse(`the old checkpoint is of ${safe(before.origin)}, the other of ${safe(note.origin)}`);
  if (size !== before.size) refuse(`the proof begins at ${size}, and the old checkpoint is of size ${before.size}`);
  if (!await isConsistent(before.size, note.size, path, before.root, note.root))
    refuse(`the log of size ${note.size} is not that of size ${before.size} with records behind`);
  return { before, note };
}

// --- what a record says (AUDIT 4): TCAR, fields by ascending tag, each a tag of two bytes, a length of four, and so many bytes

// column: tag, form.  u integer, d word of the dictionary, o origin of a log, b bytes
const COLUMNS = {
  log: [0x02, "o"], idx: [0x03, "u"], call: [0x04, "b"], ts: [0x05, "u"], mono: [0x06, "u"], boot: [0x07, "d"], clk: [0x08, "u"],
  cred: [0x10, "d"], prn: [0x11, "d"], actor: [0x12, "u"], authn: [0x13, "u"], obo: [0x14, "d"], peer: [0x15, "d"], client: [0x16, "d"],
  tport: [0x18, "u"], rev: [0x20, "d"], kind: [0x21, "u"], tool: [0x22, "d"], tdef: [0x23, "d"], build: [0x24, "d"], pol: [0x28, "d"],
  rule: [0x29, "d"], scope: [0x2a, "d"], cm: [0x30, "b"], sh: [0x31, "b"], n_req: [0x40, "u"], n_res: [0x41, "u"], n_sto: [0x42, "u"],
  flags: [0x43, "u"], key: [0x44, "u"], outcome: [0x50, "u"], xstat: [0x51, "u"], sig: [0x52, "u"], dur: [0x53, "u"], cpu: [0x54, "u"],
  rss: [0x55, "u"], sbox: [0x58, "d"], beg: [0x60, "u"], prev: [0x61, "b"], trace: [0x68, "b"], obj: [0x70, "d"], ext: [0x71, "b"],
  sys: [0x72, "d"], mdl: [0x73, "d"],
};
const words = text => Object.fromEntries(text.trim().split(/\s+/).reduce((pairs, word, i, all) => i % 2 ? [...pairs, [all[i - 1], word]] : pairs, []));
const NAMES = {
  kind: words(`
1 log.open 2 log.close 1001 call.begin 1002 call.end 1003 call.denied 1004 call.recovered 1005 call.denied.summary
1010 list 1011 notify 1012 message.dropped 1013 resource.subscribe 1014 resource.unsubscribe
1021 task.create 1022 task.input 1023 task.cancel 1024 task.end 1025 task.read 1026 task.expire 1027 task.rerun
1031 call.held 1032 call.approved 1033 call.refused 1034 call.lapsed 1035 call.recalled 1101 auth.fail
1102 auth.fail.summary 1103 cred.first_use 1104 alias.new 1201 cred.create 1202 cred.rotate 1203 cred.revoke
1204 cred.expire 1205 cred.suspend 1206 cred.resume 1301 tenant.create 1302 tenant.suspend 1303 tenant.resume
1304 tenant.delete 1305 tenant.change 1401 policy.change 1402 scope.change 1403 limit.change 1404 level.change
1405 grant.add 1406 grant.change 1407 grant.remove 1501 tool.register 1502 tool.change 1503 tool.approve
1504 tool.enable 1505 tool.disable 1506 tool.delete 1507 tool.drift 1511 upstream.add 1512 upstream.change
1513 upstream.accept 1514 upstream.remove 1521 secret.set 1522 secret.remove 1531 definition.add
1532 definition.change 1533 definition.remove 1534 registry.vouch 1535 tool.pin 1540 registry.quarantine
1601 server.start 1602 server.stop 1603 server.crash 1604 config.load 1605 clock.step 1606 time.sync
1607 sandbox.degraded 1608 space.low 1609 space.ok 1610 audit.fail 1612 backup.test 1613 store.restore 1615 backup.broken
1701 admin.cmd 1801 audit.read 1802 audit.export
1803 audit.verify 1804 audit.review 1811 alert.open 1812 alert.ack 1813 review.done 1814 alert.silence
1815 sink.change 1821 inventory.change 1822 system.change 1901 hold.set 1902 hold.release
1903 retention.change 1904 prune 1905 prune.done 1906 erase 1907 erase.done 1908 key.rotate 1909 key.destroy
1910 approval.request 1911 approval.grant 1912 segment.seal 1913 segment.move 2001 logs.commit 2002 anchor.receipt 2003 epoch.start`),
  tport: { 1: "stdio", 2: "tcp", 3: "unix", 4: "http", 5: "admin" },
  outcome: { ...["ok", "tool_error", "invalid", "denied", "rate_limited", "timeout", "cancelled", "input_required", "crashed", "aborted",
                 "overload", "unknown"] },
};
const UNITS = { n_req: "bytes", n_res: "bytes", n_sto: "bytes", dur: "us", cpu: "us", rss: "KiB" };
const CTAGS = { 1: "arguments", 2: "result", 3: "address", 4: "person", 5: "client", 6: "error", 8: "redacted", 9: "whole_arguments",
                10: "whole_result", 11: "unknown_name" };
const TEXTS = { 0x104: "ground", 0x105: "ticket", 0x106: "approver", 0x113: "reason", 0x114: "command", 0x11b: "decision", 0x12c: "result" };

// Tag -> bytes.
export function fields(record) {
  const found = new Map(), view = new DataView(record.buffer, record.byteOffset, record.length);
  let at = hex(record.subarray(0, 4)) === "54434152" ? 5 : 0, last = -1;
  while (at < record.length) {
    if (record.length - at < 6) refuse("malformed fields");
    const tag = view.getUint16(at), length = view.getUint32(at + 2);
    if (tag <= last || length > record.length - at - 6) refuse("malformed fields");
    found.set(last = tag, record.subarray(at + 6, at += 6 + length));
  }
  return found;
}

// Ctag -> commitment.
function commitments(bytes) {
  const found = new Map();
  let last = -1;
  if (bytes.length % 34) refuse("commitments");
  for (let at = 0; at < bytes.length; at += 34) {
    const ctag = bytes[at] << 8 | bytes[at + 1];
    if (ctag <= last) refuse("commitments");
    found.set(last = ctag, bytes.subarray(at + 2, at + 34));
  }
  return found.size ? found : refuse("commitments");
}

// As it may be printed: ASCII, nothing that is not seen, not long.
export function safe(text) {
  const all = Array.from(text), seen = all.slice(0, TEXT_MAX), quote = seen.includes("'") && seen.includes('"');
  const one = c => {
    const n = c.codePointAt(0), short = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": quote ? "\\'" : "'" }[c];
    return short ?? (n >= 32 && n < 127 ? c : n < 256 ? "\\x" + n.toString(16).padStart(2, "0") :
      n < 65536 ? "\\u" + n.toString(16).padStart(4, "0") : "\\U" + n.toString(16).padStart(8, "0"));
  };
  return seen.map(one).join("") + (all.length > TEXT_MAX ? "..." : "");
}

function utc(us) {
  if (us >= 253402300800000000n) return `${us} us`;
  return new Date(Number(us / 1000n)).toISOString().slice(0, 20) + String(us % 1000000n).padStart(6, "0") + "Z";
}

function forPeople(name, form, value) {
  if (form === "u") {
    const n = number(value), more = name in NAMES ? NAMES[name][n] : UNITS[name];
    return name === "ts" ? utc(n) : more ? `${n} ${more}` : String(n);
  }
  if (name === "cm") return [...commitments(value)].map(([ctag, made]) => `${CTAGS[ctag] ?? "unknown"} ${hex(made)}`).join(", ");
  if (name === "call" || name === "prev") return hex(value).replace(/^(.{0,8})(.{0,4})(.{0,4})(.{0,4})(.{0,12}).*$/, "$1-$2-$3-$4-$5");
  return form === "b" ? hex(value) : safe(unutf8(value));
}

function* ofExt(ext) {
  const view = new DataView(ext.buffer, ext.byteOffset, ext.length);
  let at = 0;
  while (ext.length - at >= 6 && ext.length - at - 6 >= view.getUint32(at + 2)) {
    const tag = view.getUint16(at), value = ext.subarray(at + 6, at += 6 + view.getUint32(at + 2));
    let text = null;
    try { text = tag in TEXTS && !value.includes(0) ? `${TEXTS[tag]} ${safe(unutf8(value))}` : null; } catch { text = null; }
    yield `${tag.toString(16).padStart(4, "0")} ${text ?? hex(value)}`;
  }
  if (at < ext.length) yield hex(ext.subarray(at));
}

// [name, text] of each column that is there, in the order of people.
export function told(record) {
  const values = fields(record), rows = [];
  for (const [name, [tag, form]] of Object.entries(COLUMNS)) {
    if (!values.has(tag)) continue;
    const lines = name === "ext" ? [...ofExt(values.get(tag))] : [forPeople(name, form, values.get(tag))];
    for (const line of lines.length ? lines : [""]) rows.push([name, line]);
  }
  return rows;
}

// --- what a record commits to

// JSON with each name once, as verify.py reads it, and not deep.
function parseRow(line) {
  const row = JSON.parse(line), names = [];
  for (const [token, string, colon] of line.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/g)) {
    if (token === "{" || token === "[") names.push(new Set());
    else if (token === "}" || token === "]") names.pop();
    else if (colon) {
      const name = JSON.parse(string), seen = names.at(-1);
      if (seen.has(name)) refuse("a name stands there twice");
      seen.add(name);
    }
    if (names.length > DEPTH_MAX) refuse("too deep");
  }
  return row;
}

function* openings(text, index) {
  if (text.length > OPENING_MAX) refuse("more than opens any record");
  for (const line of text.replace(/\n$/, "").split("\n")) {
    let row, value;
    try {
      row = parseRow(line);
      if (row === null || typeof row !== "object" || Array.isArray(row) || !("index" in row)) refuse("no row");
      if (typeof row.index !== "number" || BigInt(row.index) !== index || row.opening == null || row.value == null) continue;
      value = "bytes" in row ? base64(row.bytes) : utf8(row.value);
      if (!/^(?:[0-9a-fA-F]{2})*$/.test(row.opening) || !Number.isInteger(row.ctag) || row.ctag < 0) refuse("no row");
    } catch {
      refuse("a line that audit payload --opening does not say");
    }
    yield { ctag: row.ctag, opening: unhex(row.opening), value };
  }
}

async function hmac(key, ...parts) {
  const known = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", known, join(...parts)));
}

// [name, text] of each value that "toolcrib --json audit payload CALL --opening" shows and the record commits to.
export async function checkOpening(text, proof) {
  const cm = fields(proof.record).get(COLUMNS.cm[0]), wanted = cm ? commitments(cm) : new Map(), opened = [];
  for (const { ctag, opening, value } of openings(text, proof.index)) {
    const made = wanted.get(ctag);
    if (!made || !opening.length || !same(made, await hmac(opening, encoder.encode("toolcrib/c/1\0"), uint(ctag, 2), value)))
      refuse(`this is not what the record commits to as its ${CTAGS[ctag] ?? "value"}`);
    opened.push([CTAGS[ctag] ?? String(ctag), value]);
  }
  return opened;
}
