"use strict";

/* The page works without this file. With it: a link's code opens the page, what is new arrives by itself, the drawer
   opens in place, and keys work. Nothing here builds HTML: the server does, and htmx puts it in place. */

const root = document.documentElement;
const at = (id) => document.getElementById(id);
root.classList.add("js");

/* The door: a link carries its code behind "#", where no server sees it. */
function enter() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code || !at("open")) return;
  history.replaceState(null, "", location.pathname + location.search);
  at("open").elements.code.value = code;
  at("open").submit();
}

/* Somebody with a session who opens a fresh link needs no code. */
function dropCode() {
  if (location.hash.startsWith("#code=")) history.replaceState(null, "", location.pathname + location.search);
}

/* The drawer; who closes it stands again where it was opened from. */
let opener = null;

function show(address) {
  if (at("drawer").hidden) opener = document.activeElement;
  const done = htmx.ajax("GET", address, { target: "#drawer", swap: "outerMorph" });
  history.pushState({ htmx: true }, "", address);
  return Promise.resolve(done).then(() => {
    const drawer = at("drawer");
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
  if (row) choose(row, false);
  show(link.getAttribute("href"));
});

/* Keys */
const rows = () => [...document.querySelectorAll("#rows > .row")];
let chosenId = "";
const chosen = () => at(chosenId);

function choose(row, scroll = true) {
  chosen()?.classList.remove("chosen");
  chosenId = row.id;
  row.classList.add("chosen");
  if (scroll) row.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const all = rows();
  const now = all.indexOf(chosen());
  const next = all[Math.max(0, Math.min(all.length - 1, now + by))];
  if (next) choose(next);
  if (by > 0 && now === all.length - 1) document.querySelector("#feed-more a")?.click();
}

function follow(selector) {
  const link = chosen()?.querySelector(selector);
  if (link) show(link.getAttribute("href"));
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  Enter: () => follow(".claim"),
  p: () => follow(".chip"),
  "/": () => at("words")?.focus(),
  "?": () => at("keys")?.showModal(),
  Escape: () => document.querySelector("#drawer .close")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("keys")?.open) return;
  const field = event.target.closest("input, textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

/* What is new */
const WAIT = 400;
const due = new Set();
let waiting = 0;
let known = new Set();
let asked = null;
let unseen = 0;

/* Of the feed only the rows are loaded anew: somebody may be typing above them. */
function reload(panel) {
  load(panel.id === "panel-feed" && at("rows") ? "rows" : panel.id);
}

function load(id) {
  htmx.ajax("GET", here(), { target: "#" + id, swap: "outerMorph" });
}

const here = () => location.pathname + location.search;

/* Rows that were asked for before the filter changed come too late. */
document.addEventListener("htmx:before:swap", (event) => {
  const { target, request } = event.detail.ctx;
  if (target?.id === "rows" && request.action !== here()) event.preventDefault();
});

function isBusy(panel) {
  const field = document.activeElement;
  return (panel.contains(field) && field.matches("input:not([type=search]), textarea")) || panel.querySelector(".runs[open]");
}

function isReading() {
  return window.scrollY > 160 || rows().length > 60 || new URLSearchParams(location.search).has("before");
}

function refresh() {
  waiting = 0;
  for (const id of due) {
    const panel = at(id);
    due.delete(id);
    if (!panel || isBusy(panel)) continue;
    if (id === "panel-feed" && isReading()) news();
    else reload(panel);
  }
}

function news() {
  const button = at("news");
  if (!button) return;
  button.textContent = unseen === 1 ? "1 new engram" : unseen + " new engrams";
  button.hidden = !unseen;
}

document.addEventListener("click", (event) => {
  if (event.target.id !== "news") return;
  unseen = 0;
  window.scrollTo(0, 0);
  const address = new URL(location.href);
  if (address.searchParams.has("before")) {
    address.searchParams.delete("before");
    location.assign(address);
  } else reload(at("panel-feed"));
});

function told(type) {
  if (type === "less.engram.put") unseen += 1;
  for (const panel of document.querySelectorAll("[data-live]")) {
    if (panel.dataset.live.split(" ").some((each) => (each.endsWith(".") ? type.startsWith(each) : type === each))) {
      due.add(panel.id);
    }
  }
  if (due.size && !waiting) waiting = setTimeout(refresh, WAIT);
}

/* Who follows the current run goes along when another begins, and stays with it when it ends. */
function ran(type, run) {
  const address = new URL(location.href);
  const follows = !address.searchParams.has("run");
  if (follows && type === "less.run.end" && run === at("bar").dataset.run) {
    address.searchParams.set("run", run);
    history.replaceState(history.state, "", address);
  }
  for (const panel of document.querySelectorAll("[data-live]")) if (follows || panel.id === "bar") load(panel.id);
}

/* One stream for all windows: a browser keeps six connections to a server, and a stream is one for as long as it lasts.
   The window that holds the lock has it, and passes on what it hears. When it closes or is out of sight, the lock goes
   to the next, whose stream opens anew. */
const TYPES = document.querySelector("meta[name=events]")?.content.split(" ") ?? [];
const RETRY = 5000;
const windows = new BroadcastChannel("engrambus-events");
let live = null;
let inView = null;
let stream = null;
let again = 0;
let letGo = null;

windows.onmessage = (message) => inView && hear(message.data);

function listen() {
  if (inView || document.hidden) return;
  inView = new AbortController();
  windows.postMessage({ ask: true });
  const held = () => {
    connect();
    return new Promise((done) => (letGo = done));
  };
  navigator.locks.request("engrambus-events", { signal: inView.signal }, held).catch((problem) => {
    if (problem.name !== "AbortError") throw problem; // it was out of sight before its turn came
  });
}

function connect() {
  stream = new EventSource("/events");
  stream.onopen = () => tell({ live: true, opened: true });
  stream.onerror = () => {
    tell({ live: false });
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, RETRY);
  };
  for (const type of TYPES) {
    stream.addEventListener(type, (event) => tell({ type, run: JSON.parse(event.data).run }));
  }
}

function tell(news) {
  windows.postMessage(news);
  hear(news);
}

function hear(news) {
  if (news.ask) {
    if (stream && live !== null) windows.postMessage({ live });
  } else if (news.type) {
    if (news.type.startsWith("less.run.")) ran(news.type, news.run);
    else told(news.type);
  } else {
    state(news.live ? "on" : "off", news.live ? "live" : "not connected");
    // Between the page and the stream, or while the stream was broken, something may have been said.
    if (news.live && (news.opened || !live)) catchUp();
    live = news.live;
  }
}

function catchUp() {
  document.querySelectorAll("[data-live]").forEach((panel) => due.add(panel.id));
  if (!waiting) waiting = setTimeout(refresh, WAIT);
}

function hush() {
  inView?.abort();
  stream?.close();
  clearTimeout(again);
  letGo?.();
  live = inView = stream = letGo = null;
}

function state(name, words) {
  const live = at("live");
  if (!live) return;
  live.className = "live " + name;
  live.textContent = words;
  live.title = name === "on" ? "What is new appears by itself" : "The bus does not answer. Start it with: engrambus up";
}

/* After every swap: mark what came, draw what is to be drawn. */
function settle() {
  const all = rows();
  const first = all.findIndex((row) => known.has(row.id));
  if (asked === location.search) all.slice(0, Math.max(0, first)).forEach((row) => row.classList.add("fresh"));
  known = new Set(all.map((row) => row.id));
  asked = location.search;
  if (!isReading()) unseen = 0;
  chosen()?.classList.add("chosen");
  document.title = at("bar").dataset.title;
  ages();
  draw();
}

const UNITS = [["y", 31536000], ["d", 86400], ["h", 3600], ["m", 60]];

function ages() {
  for (const time of document.querySelectorAll(".row time, .request time")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
    const [unit, length] = UNITS.find(([, each]) => seconds >= each) || ["s", 1];
    const text = seconds < 1 ? "now" : Math.floor(seconds / length) + unit;
    if (time.textContent !== text) time.textContent = text;
  }
}

/* Plots */
const plots = new Map();

function tone(name) {
  const probe = document.createElement("i");
  probe.className = "tone " + name;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/* Hours within a day or two, days beyond. */
function stamp(seconds, times) {
  const moment = new Date(seconds * 1000);
  const wide = times[times.length - 1] - times[0] > 3 * 86400;
  const two = (number) => String(number).padStart(2, "0");
  return wide
    ? moment.toLocaleDateString("en", { day: "numeric", month: "short" })
    : two(moment.getHours()) + ":" + two(moment.getMinutes());
}

function draw(again = false) {
  if (!window.uPlot) return;
  for (const figure of document.querySelectorAll("[data-plot]")) {
    const place = figure.querySelector(".canvas");
    const given = figure.dataset.series;
    const kept = plots.get(place);
    if (kept && kept.given === given && !again) continue;
    kept?.plot.destroy();
    const { at: times, series } = JSON.parse(given);
    // A bucket lasts until the next begins: the last one, which is now, as long as the others.
    times.push(2 * times[times.length - 1] - times[times.length - 2]);
    for (const numbers of Object.values(series)) numbers.push(numbers[numbers.length - 1]);
    const axis = { stroke: tone("axis"), grid: { stroke: tone("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const plot = new uPlot(
      {
        width: place.clientWidth,
        height: 180,
        series: [{ label: " ", value: (_, moment) => (moment == null ? "" : stamp(moment, times)) }, ...Object.keys(series).map((label, index) => {
          const stroke = tone("abc"[index]);
          // What was sent again was sent back before: where lines lie on each other, the last one lets the others through.
          return { label, stroke, dash: index === 2 ? [5, 4] : [], value: (_, number) => (number == null ? "" : number.toLocaleString("en")), width: 1.6, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
        })],
        axes: [{ ...axis, size: 30, values: (_, ticks) => ticks.map((tick) => stamp(tick, times)) }, { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (tick % 1 ? "" : tick.toLocaleString("en"))) }],
        scales: { y: { range: (_, low, high) => [0, Math.max(4, high * 1.1)] } },
        legend: { markers: { width: 0, fill: (self, index) => self.series[index].stroke() } },
        cursor: { y: false, points: { size: 6 } },
      },
      [times, ...Object.values(series)],
      place,
    );
    plots.set(place, { plot, given });
  }
}

/* Light and dark, without going anywhere */
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!event.target.matches(".theme") || !button) return;
  event.preventDefault();
  const theme = root.dataset.theme === button.value ? "" : button.value;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  document.cookie = `engrambus-theme=${theme}; Path=/; SameSite=Lax; Max-Age=31536000`;
  for (const each of event.target.elements) {
    if (each.value === theme) each.setAttribute("aria-pressed", "true");
    else each.removeAttribute("aria-pressed");
  }
  draw(true);
});

/* A menu closes when one looks elsewhere. */
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".runs[open]")) if (!menu.contains(event.target)) menu.open = false;
});

function start() {
  enter();
  if (!at("main")?.matches(".start, .alone")) return;
  dropCode();
  document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  at("help").hidden = false;
  at("help").addEventListener("click", KEYS["?"]);
  document.addEventListener("htmx:after:swap", settle);
  document.addEventListener("visibilitychange", () => (document.hidden ? hush() : listen()));
  window.addEventListener("resize", () => draw(true));
  window.addEventListener("pagehide", hush);
  setInterval(ages, 15000);
  if (at("drawer") && !at("drawer").hidden) at("drawer").focus({ preventScroll: true });
  settle();
  listen();
}

window.addEventListener("hashchange", enter);
start();
