/* Live events. One stream serves all windows (decision 16): a browser opens at most six connections to a server, and a
   stream occupies one of them. The window that holds the lock has the stream and forwards its events to the others. When
   that window closes or is hidden, the next one gets the lock and opens a stream.

   An EventSource cannot send a header, so the stream is read with fetch. */

import { HEADER, sessionHeaders } from "./session.js";

const RETRY_MS = 2000;
const REOPEN_MS = 250; // after an end by the server, for example because another link has replaced the session
const otherWindows = new BroadcastChannel("engrambus-events");
let handlers = null;
let isLive = null;
let lockRequest = null;
let hasStream = false;
let lastId = "";

otherWindows.onmessage = (message) => lockRequest && receive(message.data);

/* Starts to listen, unless this window already does. `onEvent(type, run)` is called with each event, `onConnection(live,
   missed)` when the stream begins or breaks off, `onRefused(secret)` when the server does not accept the session. */
export function startListening(callbacks) {
  handlers = callbacks;
  if (isLive !== null) handlers.onConnection(isLive, isLive); // the view is new: it may lack what came meanwhile
  if (lockRequest || document.hidden) return;
  lockRequest = new AbortController();
  const { signal } = lockRequest;
  otherWindows.postMessage({ ask: true });
  navigator.locks.request("engrambus-events", { signal }, () => followUntil(signal)).catch((problem) => {
    if (problem.name !== "AbortError") throw problem; // the window was hidden before it got the lock
  });
}

export function stopListening() {
  lockRequest?.abort();
  isLive = lockRequest = null;
  hasStream = false;
}

/* Reads the stream and opens it again when it ends, until the signal; the lock is held as long. */
async function followUntil(signal) {
  hasStream = true;
  while (!signal.aborted) {
    const wasOpen = await follow(signal).catch(() => false); // false: the connection was refused or lost
    if (signal.aborted) return;
    if (!wasOpen) broadcast({ live: false });
    await new Promise((resume) => setTimeout(resume, wasOpen ? REOPEN_MS : RETRY_MS));
  }
}

/* Reads one stream to its end. Returns false if the server refused it. */
async function follow(signal) {
  const headers = { Accept: "text/event-stream", ...sessionHeaders() };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const response = await fetch("/events", { headers, signal, cache: "no-store" });
  if (!response.ok) lastId = "";
  if (response.status === 401) handlers.onRefused(headers[HEADER]);
  if (!response.ok) return false;
  broadcast({ live: true, opened: true });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (text + part.value).split("\n\n");
    text = blocks.pop(); // the beginning of the next block
    if (!signal.aborted) blocks.forEach(readBlock);
  }
  return true;
}

/* Reads one block of a stream of server-sent events: lines of `name: value`. */
function readBlock(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const [, name, value] = line.match(/^(\w+): ?(.*)$/) ?? [];
    if (name) fields[name] = value;
  }
  if (fields.id) lastId = fields.id;
  if (fields.event) broadcast({ type: fields.event, run: JSON.parse(fields.data).run });
}

function broadcast(message) {
  otherWindows.postMessage(message);
  receive(message);
}

function receive(message) {
  if (message.ask) {
    if (hasStream && isLive !== null) otherWindows.postMessage({ live: isLive });
  } else if (message.type) {
    handlers.onEvent(message.type, message.run);
  } else {
    // Events may have been missed before the stream was open, or while it was broken.
    handlers.onConnection(message.live, message.live && (message.opened || !isLive));
    isLive = message.live;
  }
}
