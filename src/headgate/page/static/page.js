// Asks for the panels every few seconds and takes over what changed, element by element, so that focus,
// open panels and half-filled forms stay as they are. Charts are plotly.js's. No other state is kept.
"use strict";

const panels = document.getElementById("panels");
const linkState = document.getElementById("link-state");
const tokenForm = document.getElementById("token-form");
const refreshMs = Number(document.body.dataset.refreshMs);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let charts = {};
let failures = 0;

const token = {
  get: () => sessionStorage.getItem("headgate-token") || "",
  set: (value) => sessionStorage.setItem("headgate-token", value),
};

function headers(more) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : { ...more };
}

// Taking over what changed.

function takeOver(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.hasAttribute?.("data-keep")) {
    takeOverChoices(old, fresh);
    return;
  }
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  takeOverChildren(old, [...fresh.childNodes]);
}

// A form stays as it is, but for what can be chosen in it: hours go by while a page is open.
function takeOverChoices(old, fresh) {
  for (const select of fresh.querySelectorAll("select")) {
    const known = old.querySelector(`select[name="${select.name}"]`);
    if (!known || known === document.activeElement || known.innerHTML === select.innerHTML) continue;
    const chosen = known.value;
    known.replaceChildren(...select.childNodes);
    known.value = chosen;
    if (known.selectedIndex < 0) known.selectedIndex = 0;
  }
}

function takeOverChildren(old, fresh) {
  const byId = new Map([...old.children].filter((e) => e.id).map((e) => [e.id, e]));
  fresh.forEach((node, index) => {
    const known = node.id && byId.get(node.id);
    if (known && known !== old.childNodes[index]) old.insertBefore(known, old.childNodes[index] || null);
    const present = old.childNodes[index];
    if (present) takeOver(present, node);
    else old.append(node);
  });
  while (old.childNodes.length > fresh.length) old.lastChild.remove();
}

// Charts.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function coloured(value) {
  if (typeof value === "string" && value.startsWith("--")) return colour(value);
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one)]));
  }
  return value;
}

function layoutOf(chart, width) {
  const axis = { gridcolor: "--grid", linecolor: "--grid", zerolinecolor: "--grid", fixedrange: true, automargin: true };
  return coloured({
    height: 220,
    margin: { l: 44, r: 8, t: 8, b: 28 },
    paper_bgcolor: "--card",
    plot_bgcolor: "--card",
    font: { color: "--text", size: 12, family: "system-ui, sans-serif" },
    xaxis: {
      ...axis, type: "date", showgrid: false, nticks: width < 450 ? 3 : 5, tickangle: 0,
      tickformat: "%H:%M:%S", hoverformat: "%d %b %H:%M:%S",
    },
    yaxis: { ...axis, rangemode: "tozero", range: chart.most ? [0, chart.most] : undefined, title: { text: chart.unit } },
    hovermode: "x unified",
    hoverlabel: { bgcolor: "--card", bordercolor: "--grid", font: { color: "--text" } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    dragmode: false,
  });
}

function draw() {
  for (const [name, chart] of Object.entries(charts)) {
    const place = document.getElementById(name);
    if (!place) continue;
    const caption = document.getElementById(`caption-${name}`);
    if (caption.textContent !== chart.said) caption.textContent = chart.said;
    Plotly.react(place, coloured(chart.data), layoutOf(chart, place.clientWidth), { displayModeBar: false, responsive: true });
  }
}

// The page's own loop.

async function refresh() {
  const response = await fetch("/panels", { headers: headers(), cache: "no-store" });
  if (!response.ok) {
    const { reason } = (await response.json()).error;
    if (response.status === 401 || response.status === 429) askForToken(reason);
    throw new Error(reason); // what is shown is old, whatever the cause
  }
  const { html, charts: given } = await response.json();
  const fresh = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
  for (const caption of fresh.querySelectorAll("figcaption")) {
    caption.textContent = given[caption.id.slice("caption-".length)]?.said || "";
  }
  takeOverChildren(panels, [...fresh.childNodes]);
  charts = given;
  draw();
  const level = panels.querySelector(".verdict h2").textContent;
  document.title = `${level} · Headgate`;
}

async function again() {
  try {
    await refresh();
    failures = 0;
    const old = panels.querySelector(".verdict.level-unknown") !== null; // the server's own last view
    linkState.textContent = old ? "the store cannot be read" : "live";
    document.body.classList.toggle("cut-off", old);
  } catch (error) {
    failures += 1;
    linkState.textContent = `not connected: ${error.message}`;
    document.body.classList.add("cut-off");
  }
  const wait = document.hidden ? 10 * refreshMs : Math.min(30000, refreshMs * 2 ** Math.min(failures, 4));
  setTimeout(again, wait);
}

// Changes, and the token that they need.

function askForToken(reason) {
  tokenForm.hidden = false;
  document.getElementById("token-said").textContent = reason || "";
}

tokenForm.addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(document.getElementById("token").value.trim());
  document.getElementById("token").value = "";
  tokenForm.hidden = true;
  refresh().catch((error) => askForToken(error.message));
});

async function ask(form, said) {
  said.textContent = "Working it out …";
  const words = new URLSearchParams(new FormData(form));
  const response = await fetch(`/v1/what-if/${encodeURIComponent(form.dataset.key)}?${words}`, { headers: headers() });
  const answer = await response.json();
  said.textContent = response.ok ? answer.sentence : answer.error.reason;
}

panels.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const said = form.querySelector(".said");
  if (form.classList.contains("ask")) {
    await ask(form, said).catch((error) => (said.textContent = `Not sent: ${error.message}`));
    return;
  }
  if (!token.get()) {
    askForToken("A token is needed to change settings; give it, then send the change again.");
    document.getElementById("token").focus();
    return;
  }
  const change = Object.fromEntries(new FormData(form));
  try {
    const response = await fetch(`/v1/gates/${encodeURIComponent(form.dataset.gate)}`, {
      method: "POST",
      headers: headers({ "Content-Type": "application/json" }),
      body: JSON.stringify(change),
    });
    const answer = await response.json();
    if (!response.ok) {
      if (response.status === 401) askForToken(answer.error.reason);
      said.textContent = answer.error.reason;
      return;
    }
    said.textContent = "Changed; it holds from the next batch on.";
    form.reset();
    refresh().catch(() => {}); // the page's own loop says what is wrong with that
  } catch (error) {
    said.textContent = `Not sent: ${error.message}`;
  }
});

dark.addEventListener("change", draw);
again();
