"use strict";

/* Runs before the first paint, while the other scripts are still being loaded. It sets the chosen colours, so that those of
   the system do not flash, and asks for the view already; page.js hands the answer to htmx. */
const storedTheme = localStorage.getItem("engrambus-theme");
if (storedTheme) document.documentElement.dataset.theme = storedTheme;

const storedSecret = localStorage.getItem("engrambus-session");
if (storedSecret && !location.hash.startsWith("#code=")) {
  const headers = { "Engrambus-Session": storedSecret, "HX-Target": "div#view", Accept: "text/html" };
  window.earlyView = fetch(location.pathname + location.search, { headers });
  window.earlyView.catch(() => {}); // page.js shows what went wrong
}
