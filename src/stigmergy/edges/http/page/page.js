"use strict";

const KEPT = "stigmergy.token";
const PAGE = 30;
const UNITS = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];

const at = (id) => document.getElementById(id);
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
let asked = 0;
let cursor = null;

/** A problem as the gateway tells it, or one of our own when there was no answer. */
class Refused extends Error {
  constructor(problem) {
    super(problem.detail || problem.title);
    this.problem = problem;
  }
}

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused({ title: "The bus does not answer. Start it with: stig up" });
  }
  const said = await answer.json();
  if (!answer.ok) throw new Refused(said);
  return said;
}

async function openSession() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const session = await call("/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  sessionStorage.setItem(KEPT, session.token);
}

function lock(problem) {
  sessionStorage.removeItem(KEPT);
  if (problem) {
    const used = problem.code === "CODE_INVALID";
    at("locked-title").textContent = used ? "This link has been used, or is too old" : "Your session is over";
    at("locked-reason").textContent = "This command prints a fresh link:";
  }
  at("open").hidden = true;
  at("locked").hidden = false;
}

/** "src/app.py", then the rest of the address, told apart so that the name is read first. */
function showPointer(pointer) {
  const item = document.createElement("li");
  const name = document.createElement("b");
  const [address, revision] = pointer.ref.split(/@(?=[^@]*$)/);
  name.textContent = address.slice(address.indexOf(":") + 1);
  const hex = /^(sha256:)?[0-9a-f]{12,}$/.test(revision || "");
  item.append(name, revision ? " @" + (hex ? revision.slice(0, revision.startsWith("sha") ? 19 : 12) : revision) : "");
  item.title = pointer.ref;
  return item;
}

function showAge(created, asOf) {
  const seconds = (Date.parse(asOf) - Date.parse(created)) / 1000;
  const [unit, length] = UNITS.find(([, each]) => seconds >= each) || ["second", 1];
  return seconds < 5 ? "just now" : ago.format(-Math.floor(seconds / length), unit);
}

function showEngram(engram, asOf) {
  const row = at("engram").content.cloneNode(true);
  const put = (selector, text) => Object.assign(row.querySelector(selector), { textContent: text });
  put(".claim", engram.claim);
  put(".kind", engram.kind).dataset.kind = engram.kind;
  put(".scope", engram.scope);
  put(".agent", engram.provenance.created_by.split("/").pop()).title = engram.provenance.created_by;
  const time = put("time", showAge(engram.provenance.created_at, asOf));
  time.dateTime = time.title = engram.provenance.created_at;
  row.querySelector(".pointers").append(...engram.pointers.map(showPointer));
  return row;
}

async function show(older = false) {
  const turn = ++asked;
  const words = at("words").value.trim();
  const query = new URLSearchParams({ k: PAGE });
  if (words) query.set("q", words);
  if (older && cursor) query.set("cursor", cursor);
  const status = at("status");
  try {
    const found = await call("/engram/query?" + query, {
      headers: { Authorization: "Bearer " + sessionStorage.getItem(KEPT) },
    });
    if (turn !== asked) return;
    const rows = found.engrams.map((engram) => showEngram(engram, found.as_of));
    if (older) at("engrams").append(...rows);
    else at("engrams").replaceChildren(...rows);
    cursor = found.cursor || null;
    at("more").hidden = !cursor;
    at("empty").hidden = Boolean(words) || older || rows.length > 0;
    status.className = "";
    status.textContent = !words ? (rows.length ? "Newest first" : "") : rows.length ? "Best first" : "Nothing matches.";
  } catch (refused) {
    if (turn !== asked) return;
    if (refused instanceof Refused && refused.problem.status === 401) return lock(refused.problem);
    status.className = "alarm";
    status.textContent = refused.message;
  }
}

async function start() {
  try {
    await openSession();
  } catch (refused) {
    return lock(refused.problem);
  }
  if (!sessionStorage.getItem(KEPT)) return lock();
  at("locked").hidden = true;
  at("open").hidden = false;
  await show();
}

let waiting;
at("words").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(show, 150);
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
at("more").addEventListener("click", () => show(true));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== at("words")) {
    event.preventDefault();
    at("words").focus();
  }
});
window.addEventListener("hashchange", start);
start();
