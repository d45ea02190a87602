/* Plots of the figures, drawn by uPlot onto the canvases that the server's HTML provides. */

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

/* uPlot is loaded with the first view that has plots. */
let loading = null;

function loadLibrary() {
  const vendored = (name) => new URL("./vendor/" + name, import.meta.url).pathname;
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: vendored("uplot.min.css") });
  const script = Object.assign(document.createElement("script"), { src: vendored("uplot.min.js") });
  document.head.prepend(style); // page.css, which comes after it, changes some of its rules
  document.head.append(script);
  return new Promise((loaded) => (script.onload = loaded));
}

export async function drawPlots(redraw = false) {
  if (!document.querySelector("[data-plot]")) return;
  await (loading ??= loadLibrary());
  for (const [canvas, { plot }] of plots) {
    if (canvas.isConnected) continue;
    plot.destroy();
    plots.delete(canvas);
  }
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
