// What pages gain by a script: times in the reader's own zone, keys, and what is copied.  Pages do all else without it; it makes nodes by
// createElement and textContent alone, and sends nothing (CONSOLE D3, C-403, C-901, C-902).

const all = (what, from = document) => [...from.querySelectorAll(what)];
const keep = (name, value) => { try { localStorage.setItem("toolcrib-" + name, value); } catch { /* it is not remembered */ } };
const kept = name => { try { return localStorage.getItem("toolcrib-" + name); } catch { return null; } };

function make(tag, text = "", members = {}) {
  const node = document.createElement(tag);
  node.textContent = text;
  return Object.assign(node, members);
}

// --- times: the server says UTC; a zone of the link (#tz=Europe/Oslo) goes before one that was chosen, and that before the browser's

const isZone = zone => { try { return Boolean(zone && new Intl.DateTimeFormat("en", { timeZone: zone })); } catch { return false; } };
const ofBrowser = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ofLink = new URLSearchParams(location.hash.slice(1)).get("tz");
let zone = [ofLink, kept("zone"), ofBrowser].find(isZone) ?? "UTC";

const formOf = at => new Intl.DateTimeFormat("en", { timeZone: at, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "longOffset" });
let form = formOf(zone);
const partsOf = date => Object.fromEntries(form.formatToParts(date).map(part => [part.type, part.value]));

function say(date) {
  const p = partsOf(date);
  const offset = p.timeZoneName.replace(/^GMT/, "");
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}.${p.fractionalSecond}${zone === "UTC" ? "Z" : " " + (offset || "+00:00")}`;
}

function show() {
  for (const time of all("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (!Number.isNaN(date.getTime())) time.textContent = say(date);
  }
}

// "2026-07-28 12:00" of the zone as UTC; anything else, such as a day that there is not, as it is: the server says what is wrong with it.
function asUtc(text) {
  const m = /^\s*(\d{4}-\d\d-\d\d)(?:[ Tt](\d\d:\d\d)(:\d\d)?)?\s*$/.exec(text);
  if (!m || (zone === "UTC" && !m[2])) return text;
  const iso = `${m[1]}T${m[2] ?? "00:00"}${m[3] ?? ":00"}.000Z`, wanted = Date.parse(iso);
  if (Number.isNaN(wanted) || new Date(wanted).toISOString() !== iso) return text;
  let at = wanted;
  for (let i = 0; i < 2; i++) {         // the offset then is found out from the offset near it
    const p = partsOf(new Date(at));
    at += wanted - Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second);
  }
  return new Date(at).toISOString().replace(".000Z", "Z");
}

function offerZones(place) {
  const select = make("select", "", { name: "" });
  const names = new Set(["UTC", zone, ofBrowser ?? "UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])]);
  for (const name of names) select.append(make("option", name, { value: name, selected: name === zone }));
  select.addEventListener("change", () => { zone = select.value; form = formOf(zone); keep("zone", zone); show(); });
  const label = make("label", "Times, shown and typed, of ");
  label.append(select);
  const button = make("button", "Keys", { type: "button" });
  button.addEventListener("click", list);
  place.replaceChildren(label, button);
  if (ofLink && !isZone(ofLink)) place.append(make("span", " the zone of this link is unknown"));
}

// --- keys: none with a modifier, none in a field, all off by one switch (WCAG 2.1.4)

let areKeysOn = kept("keys") !== "off";
const status = make("output");
status.setAttribute("role", "status");

let gone;
function tell(text) {
  status.textContent = text;
  clearTimeout(gone);
  gone = setTimeout(() => { status.textContent = ""; }, 5000);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(what + " copied");
  } catch {
    tell("the browser does not let this be copied");
  }
}

function row(step) {
  const rows = all("main tbody tr").filter(tr => tr.querySelector("a"));
  const at = rows.findIndex(tr => tr.contains(document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step))]?.querySelector("a").focus();
}

const home = document.querySelector("nav a")?.pathname;        // on pages of who is signed in alone
const tenant = all("nav a").map(a => a.pathname).find(path => /\/t\/[^/]+$/.test(path));
const go = path => { if (home) location.href = home + path; };
const ofTenant = path => { if (tenant) location.href = `${tenant}/${path}`; };
const command = () => all("footer pre").map(pre => pre.textContent).join("\n");
const keys = {
  __proto__: null, j: ["the next row", () => row(1)], k: ["the row before", () => row(-1)],
  "/": ["to the filters", () => document.querySelector("main .filter input")?.focus()],
  "[": ["earlier ones", () => document.querySelector("main a[rel=next]")?.click()], "]": ["back", () => history.back()],
  l: ["live", () => ofTenant("tail")], ".": ["copy the command", () => copy(command(), "the command")],
  y: ["copy a link to this page", () => copy(`${location.href.split("#")[0]}#tz=${zone}`, "the link")], "?": ["this list", () => list()],
  "g s": ["start", () => go("")], "g c": ["calls", () => ofTenant("r/calls")], "g r": ["reviews", () => (tenant ? ofTenant("r/reviews") : go("r/reviews"))],
  "g t": ["tools", () => go("tools")], "g g": ["who may call what", () => ofTenant("access")], "g e": ["evidence", () => go("evidence")],
};

function list() {
  const dialog = make("dialog"), table = make("dl"), off = make("input", "", { type: "checkbox", checked: areKeysOn });
  const label = make("label", "Keys are on "), form = make("form", "", { method: "dialog" });
  for (const [key, [what]] of Object.entries(keys)) {
    const line = make("div");
    line.append(make("dt", key), make("dd", what));
    table.append(line);
  }
  off.addEventListener("change", () => { areKeysOn = off.checked; keep("keys", areKeysOn ? "on" : "off"); });
  label.append(off);
  form.append(label, make("button", "Close"));
  dialog.append(make("h2", "Keys"), table, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const SOON = 2000;                      // ms from a first key to its second
let before = { key: "", at: 0 };
addEventListener("keydown", event => {
  const modified = event.ctrlKey || event.altKey || event.metaKey || event.isComposing;
  if (modified || event.target.closest?.("input, select, textarea, dialog") || !areKeysOn) return;
  const both = event.timeStamp - before.at < SOON ? keys[`${before.key} ${event.key}`] : undefined;
  const what = both ?? keys[event.key];
  before = { key: both ? "" : event.key, at: event.timeStamp };
  if (!what) return;
  event.preventDefault();
  what[1]();
});

// ---

// What is typed into the filters and forms of a page.
addEventListener("submit", event => {
  for (const input of all("input[name=since], input[name=until]", event.target)) input.value = asUtc(input.value);
});
const place = document.getElementById("zone");
if (place) {
  offerZones(place);
  document.body.append(status);
}
show();
