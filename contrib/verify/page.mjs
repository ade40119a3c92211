// The page around verify.mjs: fields to paste into or drop files on, a verdict, and what the record says.  What this page asks for from a
// server is one proof, from where it came from itself and named behind its address's #.  It keeps keys, and of each log the newest
// checkpoint that it believed, in this browser and when asked to.
import { KEYS_MAX, OPENING_MAX, PROOF_MAX, Refused, checkGrowth, checkOpening, checkProof, missing, parseKeys, parseNote, safe, told } from "./verify.mjs";

const at = id => document.getElementById(id);
const make = (name, text, className) => {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};
const LIMITS = { keys: KEYS_MAX, proof: PROOF_MAX, opening: OPENING_MAX, old: PROOF_MAX };
const KEPT = "toolcrib.verify/1";

// --- what this browser keeps: { keys: text, seen: { origin: [size, root, day] } }

function kept() {
  try {
    const was = JSON.parse(localStorage.getItem(KEPT));
    return was && typeof was.keys === "string" && was.seen && typeof was.seen === "object" ? was : null;
  } catch { return null; }
}
function keep(what) {
  try { what ? localStorage.setItem(KEPT, JSON.stringify(what)) : localStorage.removeItem(KEPT); } catch { /* it keeps nothing, then */ }
}

// A log has one root at a size: whoever shows two has forked it.
function compare(note) {
  const root = btoa(String.fromCharCode(...note.root)), was = kept()?.seen[note.origin];
  if (was && BigInt(was[0]) === note.size && was[1] !== root)
    throw new Refused(`on ${was[2]} this log had another root at the size ${note.size}: somebody shows two logs`);
  const today = new Date().toISOString().slice(0, 10), all = at("keep").checked && { keys: at("keys").value, seen: kept()?.seen ?? {} };
  if (!all) return "";
  if (!was || BigInt(was[0]) < note.size) all.seen[note.origin] = [String(note.size), root, today];
  keep(all);
  if (!was) return "This is the first checkpoint of this log that this browser has seen; from now on one that differs is refused.";
  return BigInt(was[0]) < note.size ? `The log has grown since this browser saw ${was[0]} records of it on ${was[2]}. That it is the same log, ` +
    `“toolcrib audit consistency --from ${was[0]}” proves.` : "";
}

// --- the verdict

function say(className, title, lines = [], rows = []) {
  const verdict = at("verdict"), list = make("ul", "");
  for (const line of lines) list.append(make("li", line));
  verdict.className = className;
  verdict.replaceChildren(make("h2", title), list);
  const body = make("tbody", "");
  for (const [name, text] of rows) {
    const row = make("tr", ""), head = make("th", name);
    head.scope = "row";
    row.append(head, make("td", text));
    body.append(row);
  }
  if (rows.length) {
    const table = make("table", "");
    table.append(make("caption", "What the record says, decoded here"), body);
    verdict.append(table);
  }
  verdict.focus();
}

async function proved(keys) {
  const proof = await checkProof(at("proof").value, keys), name = safe(proof.note.origin);
  const opened = at("opening").value.trim() ? await checkOpening(at("opening").value, proof) : null;
  const text = bytes => safe(new TextDecoder().decode(bytes));
  say(opened && !opened.length ? "part" : "good", `PROVED record ${proof.index} of ${name}, in a log of ${proof.note.size}`, [
    `the record has ${proof.record.length} bytes, and its hash leads to the root of the checkpoint`,
    "the checkpoint is signed by a key that you gave",
    ...(opened ?? []).map(([what, value]) => `its ${what} are what the record commits to: ${text(value)}`),
    ...(opened && !opened.length ? [`nothing opens what record ${proof.index} commits to`] : []),
    compare(proof.note)].filter(Boolean), told(proof.record));
}

async function grown(keys) {
  const { before, note } = await checkGrowth(at("proof").value, at("old").value, keys);
  say("good", `PROVED ${safe(note.origin)} of size ${note.size} goes on behind size ${before.size}`,
      ["nothing of what the old checkpoint covers was changed or taken away", compare(note)].filter(Boolean));
}

async function check() {
  try {
    const lacks = await missing();
    if (lacks) return say("bad", "NOT CHECKED", [lacks]);
    const keys = await parseKeys(at("keys").value);
    await (at("proof").value.startsWith("old ") ? grown(keys) : proved(keys));
  } catch (error) {
    say("bad", "REFUSED", [error instanceof Refused ? error.message : `the page failed: ${safe(String(error))}`]);
  }
}

// --- files, and a proof of where this page came from

async function take(file, field) {
  if (file.size > LIMITS[field]) return say("bad", "NOT CHECKED", [`${safe(file.name)} has more than ${LIMITS[field]} bytes`]);
  at(field).value = await file.text();
}

async function fetched() {
  const [, path] = /^#(\/t\/[a-z0-9._-]+\/call\/[0-9a-f-]+\/proof)$/.exec(location.hash) ?? [];
  if (!path || location.protocol === "file:") return;
  const answer = await fetch(location.pathname.replace(/\/verify$/, "") + path, { credentials: "same-origin", redirect: "error" });
  if (!answer.ok) return say("bad", "NOT CHECKED", [`there is no proof at ${safe(path)}: status ${answer.status}`]);
  at("proof").value = await answer.text();
  if (at("keys").value) await check();
}

for (const field of Object.keys(LIMITS)) {
  const area = at(field);
  at(`${field}-file`).addEventListener("change", event => { for (const file of event.target.files) take(file, field); });
  area.addEventListener("dragover", event => event.preventDefault());
  area.addEventListener("drop", event => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take(event.dataTransfer.files[0], field);
  });
}
at("check").addEventListener("click", check);
at("forget").addEventListener("click", () => { keep(null); at("keys").value = ""; at("keep").checked = false; });
const was = kept();
if (was) { at("keys").value = was.keys; at("keep").checked = true; }
window.addEventListener("hashchange", fetched);
fetched();
