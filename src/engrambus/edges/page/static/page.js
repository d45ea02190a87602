"use strict";

/* The page works without this file (decision 16). With it, a link's code signs the visitor in, new items appear without
   reloading, the drawer opens in place, and keys work. No HTML is built here: the server renders it, htmx inserts it. */

const root = document.documentElement;
const byId = (id) => document.getElementById(id);
root.classList.add("js");

/* Sign-in. A link carries its code after "#", because browsers do not send that part to any server. */
function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code || !byId("open")) return;
  history.replaceState(null, "", location.pathname + location.search);
  byId("open").elements.code.value = code;
  byId("open").submit();
}

/* A visitor who has a session does not need the code of a new link. */
function removeCode() {
  if (location.hash.startsWith("#code=")) history.replaceState(null, "", location.pathname + location.search);
}

/* The drawer. When it closes, the element that opened it gets the focus back. */
let opener = null;

function openDrawer(address) {
  if (byId("drawer").hidden) opener = document.activeElement;
  const loaded = htmx.ajax("GET", address, { target: "#drawer", swap: "outerMorph" });
  history.pushState({ htmx: true }, "", address);
  return Promise.resolve(loaded).then(() => {
    const drawer = byId("drawer");
    drawer.scrollTop = 0;
    if (!drawer.hidden) drawer.focus({ preventScroll: true });
    else if (opener?.isConnected) opener.focus({ preventScroll: true });
  });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-drawer]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const row = link.closest(".row");
  if (row) select(row, false);
  openDrawer(link.getAttribute("href"));
});

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
const panelsToReload = new Set();
let reloadTimer = 0;
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

const currentAddress = () => location.pathname + location.search;

/* Rows that were requested before the filter changed are dropped. */
document.addEventListener("htmx:before:swap", (event) => {
  const { target, request } = event.detail.ctx;
  if (target?.id === "rows" && request.action !== currentAddress()) event.preventDefault();
});

/* A panel in which the visitor types, or whose menu is open, is not replaced. */
function isInUse(panel) {
  const field = document.activeElement;
  const isTyped = (text) => text.value !== text.defaultValue;
  return (
    (panel.contains(field) && field.matches("input:not([type=search]), textarea")) ||
    panel.querySelector(".runs[open], .reply[open]") ||
    [...panel.querySelectorAll("textarea")].some(isTyped)
  );
}

function isScrolled() {
  return window.scrollY > 160 || feedRows().length > 60 || new URLSearchParams(location.search).has("before");
}

function reloadPanels() {
  reloadTimer = 0;
  for (const id of panelsToReload) {
    const panel = byId(id);
    panelsToReload.delete(id);
    if (!panel || isInUse(panel)) continue;
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
    location.assign(address);
  } else reloadPanel(byId("panel-feed"));
});

function onEvent(type) {
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
  if (followsCurrent && type === "less.run.end" && run === byId("bar").dataset.run) {
    address.searchParams.set("run", run);
    history.replaceState(history.state, "", address);
  }
  for (const panel of document.querySelectorAll("[data-live]")) if (followsCurrent || panel.id === "bar") load(panel.id);
}

/* One event stream for all windows (decision 16): a browser opens at most six connections to a server, and a stream
   occupies one of them. The window that holds the lock has the stream and forwards its events to the others. When that
   window closes or is hidden, the next one gets the lock and opens a stream. */
const EVENT_TYPES = document.querySelector("meta[name=events]")?.content.split(" ") ?? [];
const RETRY_MS = 5000;
const otherWindows = new BroadcastChannel("engrambus-events");
let isLive = null;
let lockRequest = null;
let stream = null;
let retryTimer = 0;
let releaseLock = null;

otherWindows.onmessage = (message) => lockRequest && receive(message.data);

function startListening() {
  if (lockRequest || document.hidden) return;
  lockRequest = new AbortController();
  otherWindows.postMessage({ ask: true });
  const onLock = () => {
    connect();
    return new Promise((release) => (releaseLock = release));
  };
  navigator.locks.request("engrambus-events", { signal: lockRequest.signal }, onLock).catch((problem) => {
    if (problem.name !== "AbortError") throw problem; // the window was hidden before it got the lock
  });
}

function connect() {
  stream = new EventSource("/events");
  stream.onopen = () => broadcast({ live: true, opened: true });
  stream.onerror = () => {
    broadcast({ live: false });
    if (stream.readyState === EventSource.CLOSED) retryTimer = setTimeout(connect, RETRY_MS);
  };
  for (const type of EVENT_TYPES) {
    stream.addEventListener(type, (event) => broadcast({ type, run: JSON.parse(event.data).run }));
  }
}

function broadcast(message) {
  otherWindows.postMessage(message);
  receive(message);
}

function receive(message) {
  if (message.ask) {
    if (stream && isLive !== null) otherWindows.postMessage({ live: isLive });
  } else if (message.type) {
    if (message.type.startsWith("less.run.")) onRunEvent(message.type, message.run);
    else onEvent(message.type);
  } else {
    showConnection(message.live);
    // Events may have been missed before the stream was open, or while it was broken.
    if (message.live && (message.opened || !isLive)) reloadAllPanels();
    isLive = message.live;
  }
}

function reloadAllPanels() {
  document.querySelectorAll("[data-live]").forEach((panel) => panelsToReload.add(panel.id));
  scheduleReload();
}

function stopListening() {
  lockRequest?.abort();
  stream?.close();
  clearTimeout(retryTimer);
  releaseLock?.();
  isLive = lockRequest = stream = releaseLock = null;
}

function showConnection(live) {
  const label = byId("live");
  if (!label) return;
  label.className = "live " + (live ? "on" : "off");
  label.textContent = live ? "live" : "not connected";
  label.title = live ? "New items appear without reloading" : "The server does not answer. Start it with: engrambus up";
}

/* After every swap: mark the new rows, update ages and plots. */
function afterSwap() {
  const rows = feedRows();
  const firstKnown = rows.findIndex((row) => previousIds.has(row.id));
  // Rows are only new if the same filter was shown before.
  if (previousSearch === location.search) rows.slice(0, Math.max(0, firstKnown)).forEach((row) => row.classList.add("fresh"));
  previousIds = new Set(rows.map((row) => row.id));
  previousSearch = location.search;
  if (!isScrolled()) unseenCount = 0;
  selectedRow()?.classList.add("chosen");
  document.title = byId("bar").dataset.title;
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

/* Plots */
const WIDE_SECONDS = 3 * 86400;
const plots = new Map();

/* The colour that the stylesheet gives to a class, for the canvas. */
function colourOf(name) {
  const probe = document.createElement("i");
  probe.className = "tone " + name;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/* A time on the axis: hours and minutes for a short period, days for a long one. */
function timeLabel(seconds, times) {
  const time = new Date(seconds * 1000);
  const isWide = times[times.length - 1] - times[0] > WIDE_SECONDS;
  const twoDigits = (number) => String(number).padStart(2, "0");
  return isWide
    ? time.toLocaleDateString("en", { day: "numeric", month: "short" })
    : twoDigits(time.getHours()) + ":" + twoDigits(time.getMinutes());
}

function drawPlots(redraw = false) {
  if (!window.uPlot) return;
  for (const figure of document.querySelectorAll("[data-plot]")) {
    const canvas = figure.querySelector(".canvas");
    const data = figure.dataset.series;
    const drawn = plots.get(canvas);
    if (drawn && drawn.data === data && !redraw) continue;
    drawn?.plot.destroy();
    plots.set(canvas, { plot: drawPlot(canvas, JSON.parse(data)), data });
  }
}

function drawPlot(canvas, { seconds: times, series }) {
  // A step lasts until the next one begins; the last one, which is now, gets the same length.
  times.push(2 * times[times.length - 1] - times[times.length - 2]);
  for (const numbers of Object.values(series)) numbers.push(numbers[numbers.length - 1]);
  const axis = { stroke: colourOf("axis"), grid: { stroke: colourOf("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot(
    {
      width: canvas.clientWidth,
      height: 180,
      series: [{ label: " ", value: (_, time) => (time == null ? "" : timeLabel(time, times)) }, ...Object.keys(series).map((label, index) => ({
        label,
        stroke: colourOf("abc"[index]),
        // The third line is dashed: it often lies on the second (rejected, sent again), which must stay visible.
        dash: index === 2 ? [5, 4] : [],
        value: (_, number) => (number == null ? "" : number.toLocaleString("en")),
        width: 1.6,
        points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }),
      }))],
      axes: [
        { ...axis, size: 30, values: (_, ticks) => ticks.map((tick) => timeLabel(tick, times)) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (tick % 1 ? "" : tick.toLocaleString("en"))) },
      ],
      scales: { y: { range: (_, low, high) => [0, Math.max(4, high * 1.1)] } },
      legend: { markers: { width: 0, fill: (self, index) => self.series[index].stroke() } },
      cursor: { y: false, points: { size: 6 } },
    },
    [times, ...Object.values(series)],
    canvas,
  );
}

/* Light and dark colours, without reloading the page */
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!event.target.matches(".theme") || !button) return;
  event.preventDefault();
  const theme = root.dataset.theme === button.value ? "" : button.value;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  document.cookie = `engrambus-theme=${theme}; Path=/; SameSite=Lax; Max-Age=31536000`;
  for (const element of event.target.elements) {
    if (element.value === theme) element.setAttribute("aria-pressed", "true");
    else element.removeAttribute("aria-pressed");
  }
  drawPlots(true);
});

/* A click outside closes the menu of runs. */
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".runs[open]")) if (!menu.contains(event.target)) menu.open = false;
});

function start() {
  signIn();
  if (!byId("main")?.matches(".start, .alone")) return;
  removeCode();
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  byId("help").hidden = false;
  byId("help").addEventListener("click", KEYS["?"]);
  document.addEventListener("htmx:after:swap", afterSwap);
  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : startListening()));
  window.addEventListener("resize", () => drawPlots(true));
  window.addEventListener("pagehide", stopListening);
  setInterval(updateAges, 15000);
  if (byId("drawer") && !byId("drawer").hidden) byId("drawer").focus({ preventScroll: true });
  afterSwap();
  startListening();
}

window.addEventListener("hashchange", signIn);
start();
