"use strict";

/* Loaded before the first paint, so that a page in chosen colours does not flash in those of the system. */
const storedTheme = localStorage.getItem("engrambus-theme");
if (storedTheme) document.documentElement.dataset.theme = storedTheme;
