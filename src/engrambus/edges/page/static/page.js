/* What a window of the page does: it shows views, opens the drawer in place, follows live events, and handles keys. The
   address serves a shell without content (decision 64). Every view comes from the server as HTML, with the session's
   secret in the request, and htmx inserts it: no HTML is built here. */

import { startListening, stopListening } from "./events.js";
import { drawPlots } from "./plots.js";
import { HEADER, forget, onOtherWindow, openSession, secret, sessionHeaders, signOut } from "./session.js";

const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const currentAddress = () => location.pathname + location.search;

/* The shell shows one of three: a view, how to sign in, or that the server does not answer. */
function show(id) {
  for (const name of ["view", "sign-in", "failed"]) byId(name).hidden = name !== id;
  if (id === "view") return;
  stopListening();
  byId("view").replaceChildren();
  document.title = "Engram Bus";
}

const REASONS = {
  none: "Open this page with a link from the terminal",
  used: "This link was already used or has expired",
  ended: "Your session has ended",
  out: "You are signed out",
};

function showSignIn(reason) {
  byId("sign-in").querySelector("h2").textContent = REASONS[reason];
  byId("open").reset();
  show("sign-in");
}

/* Signing in and out. A link carries its code after "#", because browsers do not send that part to any server. */
async function start() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(history.state, "", currentAddress());
  await signInWith(code);
}

async function signInWith(code) {
  try {
    const isUsed = code && !(await openSession(code));
    if (secret()) await showView(history.state?.scrollY);
    else showSignIn(isUsed ? "used" : "none");
  } catch {
    show("failed");
  }
}

function onRefused(refused) {
  if (!forget(refused)) showView(window.scrollY); // another window has signed in meanwhile
  else if (byId("sign-in").hidden) showSignIn("ended");
}

document.addEventListener("htmx:config:request", (event) => {
  Object.assign(event.detail.ctx.request.headers, sessionHeaders());
});

document.addEventListener("htmx:before:response", (event) => {
  const { request, response } = event.detail.ctx;
  if (response.status === 401) {
    event.preventDefault();
    onRefused(request.headers[HEADER]);
  } else if (!response.headers.get("Content-Type")?.startsWith("text/html")) {
    event.preventDefault(); // a fault of the server, told as JSON
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "open") return;
  event.preventDefault();
  signInWith(event.target.elements.code.value.trim());
});

document.addEventListener("click", async (event) => {
  if (event.target.id === "retry") start();
  if (event.target.id !== "sign-out") return;
  await signOut();
  showSignIn("out");
});

onOtherWindow(() => {
  if (!secret()) showSignIn("out");
  else if (byId("view").hidden) showView();
});

/* Views. A link to another view is followed in place, so that nothing flashes; its address goes into the history. */
let viewRequests = 0;
let isLoaded = false;

async function showView(scrollY = 0) {
  const number = ++viewRequests;
  isLoaded = false;
  const early = window.earlyView; // asked for by early.js
  window.earlyView = null;
  await htmx.ajax("GET", currentAddress(), { target: "#view", swap: "innerHTML", fetch: early ? () => early : null });
  if (number !== viewRequests || !secret()) return; // the visitor has gone on, or is signed out
  if (!isLoaded) return show("failed");
  show("view");
  window.scrollTo(0, scrollY);
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  if (byId("drawer") && !byId("drawer").hidden) byId("drawer").focus({ preventScroll: true });
  if (byId("bar")) startListening({ onEvent, onConnection, onRefused });
}

function goTo(address) {
  storeScroll();
  if (address !== currentAddress()) history.pushState({ htmx: true }, "", address);
  return showView();
}

/* The place of a view is stored with its entry in the history: the browser would restore it before the view is there. */
history.scrollRestoration = "manual";

function storeScroll() {
  history.replaceState({ htmx: true, scrollY: window.scrollY }, "");
}

document.addEventListener("scrollend", storeScroll); // for a reload: the history cannot be changed any more during one

document.addEventListener("htmx:before:history:restore", (event) => {
  event.preventDefault();
  showView(history.state.scrollY);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const address = link.getAttribute("href");
  if (!link.matches("[data-drawer]")) {
    goTo(address);
    return;
  }
  const row = link.closest(".row");
  if (row) select(row, false);
  openDrawer(address);
});

/* The drawer. When it closes, the element that opened it gets the focus back. */
let opener = null;

function openDrawer(address) {
  if (byId("drawer").hidden) opener = document.activeElement;
  const loaded = htmx.ajax("GET", address, { target: "#drawer", swap: "outerMorph" });
  storeScroll();
  history.pushState({ htmx: true }, "", address);
  return Promise.resolve(loaded).then(() => {
    const drawer = byId("drawer");
    if (!drawer) return;
    drawer.scrollTop = 0;
    if (!drawer.hidden) drawer.focus({ preventScroll: true });
    else if (opener?.isConnected) opener.focus({ preventScroll: true });
  });
}

/* Keys */
const feedRows = () => [...document.querySelectorAll("#rows > .row")];
let selectedId = "";
const selectedRow = () => byId(selectedId);

function select(row, scroll = true) {
  selectedRow()?.classList.remove("chosen");
  selectedId = row.id;
  row.classList.add("chosen");
  if (scroll) row.scrollIntoView({ block: "nearest" });
}

function moveSelection(by) {
  const rows = feedRows();
  const index = rows.indexOf(selectedRow());
  const next = rows[Math.max(0, Math.min(rows.length - 1, index + by))];
  if (next) select(next);
  if (by > 0 && index === rows.length - 1) document.querySelector("#feed-more a")?.click();
}

function openLink(selector) {
  const link = selectedRow()?.querySelector(selector);
  if (link) openDrawer(link.getAttribute("href"));
}

const KEYS = {
  j: () => moveSelection(1),
  k: () => moveSelection(-1),
  Enter: () => openLink(".claim"),
  p: () => openLink(".chip"),
  "/": () => byId("words")?.focus(),
  "?": () => byId("keys")?.showModal(),
  Escape: () => document.querySelector("#drawer .close")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys")?.open) return;
  const field = event.target.closest("input, textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

/* Reloading panels when events arrive */
const RELOAD_DELAY_MS = 400;
const NOTICE_MS = 4000;
const panelsToReload = new Set();
let reloadTimer = 0;
let isConnected = false;
let previousIds = new Set();
let previousSearch = null;
let unseenCount = 0;

/* Of the feed only the rows are reloaded: the visitor may be typing in the filter above them. */
function reloadPanel(panel) {
  load(panel.id === "panel-feed" && byId("rows") ? "rows" : panel.id);
}

function load(id) {
  htmx.ajax("GET", currentAddress(), { target: "#" + id, swap: "outerMorph" });
}

/* Parts that were requested before the filter or the view changed are dropped. */
document.addEventListener("htmx:before:swap", (event) => {
  const { target, request } = event.detail.ctx;
  const isOfAddress = ["rows", "view"].includes(target?.id);
  if (!target?.isConnected || (isOfAddress && request.action !== currentAddress())) event.preventDefault();
});

/* A panel in which the visitor types, or whose menu is open, is not replaced. */
function isInUse(panel) {
  const field = document.activeElement;
  const isTyped = (text) => text.value !== text.defaultValue;
  const isChosen = (option) => option.selected !== option.defaultSelected;
  return (
    (panel.contains(field) && field.matches("input:not([type=search]), textarea")) ||
    panel.querySelector(".runs[open], .reply[open]") ||
    [...panel.querySelectorAll("textarea")].some(isTyped) ||
    [...panel.querySelectorAll(".write option")].some(isChosen)
  );
}

/* What became of a form is shown for a while before an event may replace it. */
function hasNewNotice(panel) {
  return [...panel.querySelectorAll(".notice")].some((notice) => Date.now() - notice.dataset.since < NOTICE_MS);
}

function isScrolled() {
  return window.scrollY > 160 || feedRows().length > 60 || new URLSearchParams(location.search).has("before");
}

function reloadPanels() {
  reloadTimer = 0;
  if (!isConnected) return; // all panels are reloaded when the server answers again; until then each would ask in vain
  for (const id of panelsToReload) {
    const panel = byId(id);
    panelsToReload.delete(id);
    if (!panel || isInUse(panel)) continue;
    if (hasNewNotice(panel)) {
      setTimeout(() => panelsToReload.add(id) && scheduleReload(), NOTICE_MS);
      continue;
    }
    if (id === "panel-feed" && isScrolled()) offerNewEngrams();
    else reloadPanel(panel);
  }
}

function scheduleReload() {
  if (!reloadTimer) reloadTimer = setTimeout(reloadPanels, RELOAD_DELAY_MS);
}

function offerNewEngrams() {
  const button = byId("news");
  if (!button) return;
  button.textContent = unseenCount === 1 ? "1 new engram" : unseenCount + " new engrams";
  button.hidden = !unseenCount;
}

document.addEventListener("click", (event) => {
  if (event.target.id !== "news") return;
  unseenCount = 0;
  window.scrollTo(0, 0);
  const address = new URL(location.href);
  if (address.searchParams.has("before")) {
    address.searchParams.delete("before");
    goTo(address.pathname + address.search);
  } else reloadPanel(byId("panel-feed"));
});

function onEvent(type, run) {
  if (type.startsWith("less.run.")) return onRunEvent(type, run);
  const bar = byId("bar");
  // The server shows a run that has ended until something happens in the current one: then all panels move there.
  if (bar?.dataset.ended !== undefined && run !== bar.dataset.run && !new URL(location.href).searchParams.has("run")) {
    return reloadAllPanels();
  }
  if (type === "less.engram.put") unseenCount += 1;
  const matches = (pattern) => (pattern.endsWith(".") ? type.startsWith(pattern) : type === pattern);
  for (const panel of document.querySelectorAll("[data-live]")) {
    if (panel.dataset.live.split(" ").some(matches)) panelsToReload.add(panel.id);
  }
  if (panelsToReload.size) scheduleReload();
}

/* A page without `run=` shows the current run: it moves to a new run, and stays with a run that ends. */
function onRunEvent(type, run) {
  const address = new URL(location.href);
  const followsCurrent = !address.searchParams.has("run");
  if (followsCurrent && type === "less.run.end" && run === byId("bar")?.dataset.run) {
    address.searchParams.set("run", run);
    history.replaceState(history.state, "", address);
  }
  for (const panel of document.querySelectorAll("[data-live]")) if (followsCurrent || panel.id === "bar") load(panel.id);
}

function onConnection(live, hasMissed) {
  isConnected = live;
  showConnection(live);
  if (hasMissed) reloadAllPanels();
}

function reloadAllPanels() {
  document.querySelectorAll("[data-live]").forEach((panel) => panelsToReload.add(panel.id));
  scheduleReload();
}

function showConnection(live) {
  const label = byId("live");
  if (!label) return;
  label.className = "live " + (live ? "on" : "off");
  label.textContent = live ? "live" : "not connected";
  label.title = live ? "New items appear without reloading" : "The server does not answer. Start it with: engrambus up";
}

/* After every swap: mark the new rows, update ages and plots. */
function afterSwap(event) {
  if (event.detail.ctx.target.id === "view") isLoaded = true;
  const rows = feedRows();
  const firstKnown = rows.findIndex((row) => previousIds.has(row.id));
  // Rows are only new if the same filter was shown before.
  if (previousSearch === location.search) rows.slice(0, Math.max(0, firstKnown)).forEach((row) => row.classList.add("fresh"));
  previousIds = new Set(rows.map((row) => row.id));
  previousSearch = location.search;
  if (!isScrolled()) unseenCount = 0;
  selectedRow()?.classList.add("chosen");
  for (const notice of document.querySelectorAll(".notice")) notice.dataset.since ??= Date.now();
  document.title = byId("bar")?.dataset.title ?? "Engram Bus";
  markTheme();
  updateAges();
  drawPlots();
}

const UNITS = [["y", 31536000], ["d", 86400], ["h", 3600], ["m", 60]];

function updateAges() {
  for (const time of document.querySelectorAll(".row time, .request time")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
    const [unit, length] = UNITS.find(([, unitSeconds]) => seconds >= unitSeconds) || ["s", 1];
    const text = seconds < 1 ? "now" : Math.floor(seconds / length) + unit;
    if (time.textContent !== text) time.textContent = text;
  }
}

/* Light and dark colours */
document.addEventListener("click", (event) => {
  const button = event.target.closest(".theme button");
  if (!button) return;
  const theme = root.dataset.theme === button.value ? "" : button.value;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  localStorage.setItem("engrambus-theme", theme);
  markTheme();
  drawPlots(true);
});

function markTheme() {
  for (const button of document.querySelectorAll(".theme button")) {
    if (button.value === root.dataset.theme) button.setAttribute("aria-pressed", "true");
    else button.removeAttribute("aria-pressed");
  }
}

/* A click outside closes the menu of runs. */
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".runs[open]")) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("click", (event) => event.target.id === "help" && KEYS["?"]());
document.addEventListener("htmx:after:swap", afterSwap);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopListening();
  else if (byId("bar")) startListening({ onEvent, onConnection, onRefused });
});
window.addEventListener("resize", () => drawPlots(true));
window.addEventListener("pagehide", stopListening);
window.addEventListener("pageshow", (event) => event.persisted && start()); // kept by the browser: the session may have ended
window.addEventListener("hashchange", () => location.hash.startsWith("#code=") && start());
setInterval(updateAges, 15000);
start();
