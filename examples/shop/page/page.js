"use strict";

const $ = (id) => document.getElementById(id);
let words = WORDS[localStorage.getItem("language")] ? localStorage.getItem("language") : "en";
const word = (key) => WORDS[words][key];

let shop; // the rows, the columns and the price
let page = null; // the number of the open page
let mechanismOfPage = null;
let shown = null; // the report in the timeline
const reports = new Map(); // the grid, by "mechanism scenario"

// The server.

async function ask(path, body) {
  const request = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, request);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/// Shows a failure instead of losing it.
function attempt(work) {
  return (...given) => work(...given).catch((error) => {
    console.warn(error);
    say("warn", word("failed"));
  });
}

function listen() {
  const events = new EventSource("/api/events");
  events.onmessage = attempt(async (message) => {
    const event = JSON.parse(message.data);
    // The first event, and the event after lost ones: read everything again.
    if (event.type === "resync") await resync();
    if (event.type === "report") showCell(event.report);
    if (event.type === "attempt" && event.run === page) await readPage();
  });
}

async function resync() {
  const state = await ask("/api/state");
  state.reports.forEach(showCell);
  if (page !== null && shown?.run === page) await readPage();
}

async function readPage() {
  const asked = page;
  const report = await ask(`/api/pages/${asked}`);
  if (asked === page) show(report);
}

/// Opens a page of the chosen mechanism, so that the button belongs to it.
async function newPage() {
  $("buy").disabled = true;
  mechanismOfPage = $("mechanism").value;
  page = (await ask("/api/pages", { mechanism: mechanismOfPage })).page;
  $("buy").disabled = false;
}

const openPage = attempt(async () => {
  await newPage();
  await readPage();
});

const buy = attempt(async () => {
  await ask(`/api/pages/${page}/clicks`, {});
  await readPage();
});

const play = attempt(async (mechanism, scenario) => {
  choose(mechanism);
  const clicks = Number($("clicks").value) || 20;
  say("", word("running"));
  if (mechanism !== mechanismOfPage) await newPage();
  const report = await ask("/api/run", { mechanism, scenario, clicks });
  showCell(report);
  show(report);
});

const playAll = attempt(async () => {
  $("all").disabled = true;
  $("progress").textContent = word("running");
  const began = performance.now();
  try {
    await ask("/api/run-all", { clicks: Number($("clicks").value) || 20 });
    $("progress").textContent = `${word("done")} ${((performance.now() - began) / 1000).toFixed(1)} s`;
  } finally {
    $("all").disabled = false;
  }
});

// The result of one run.

/// Good, a warning, or bad; and the word for it.
function judge(report) {
  const { charges, intents, verdict } = report;
  if (verdict === "charged") return ["bad", word("times")(charges)];
  if (verdict === "once" && intents > 1) return ["good", word("verdict").as_wanted];
  const grade = verdict === "blocked" || verdict === "unnoticed" ? "warn" : "good";
  return [grade, word("verdict")[verdict]];
}

function show(report) {
  shown = report;
  const scenario = report.scenario;
  $("what").textContent = scenario ? word("scenario")[scenario][1] : "";
  const clicks = report.attempts.length;
  if (clicks === 0) {
    say("", word("ready"));
  } else {
    const running = !scenario && report.attempts.some((row) => row.outcome === "running");
    const [grade, verdict] = judge(report);
    const count = scenario ? word("sent")(clicks) : word("clicked")(clicks);
    const text = `${count}${word("wanted")(report.intents)} ${word("money")(report.cents / 100)}`;
    const mark = { good: "✓", warn: "!", bad: "✗" }[grade];
    const open = running && grade !== "bad";
    say(open ? "" : grade, open ? `${text} …` : `${text} ${mark} ${verdict}`);
  }
  const end = Math.max(1, ...report.attempts.map((row) => row.at + row.took));
  const begin = Math.min(end - 1, ...report.attempts.map((row) => row.at));
  $("attempts").replaceChildren(...report.attempts.map((row) => timelineRow(row, begin, end)));
}

function say(grade, text) {
  $("sentence").className = `sentence ${grade}`;
  $("sentence").textContent = text;
}

function timelineRow(row, begin, end) {
  const bar = make("div", `bar ${row.outcome}`);
  const share = (time) => `${(100 * time) / (end - begin)}%`;
  bar.style.left = share(row.at - begin);
  bar.style.width = share(row.took);
  const track = make("div", "track");
  track.append(bar);
  const when = make("td");
  when.append(track, make("span", "times", `${row.at} + ${row.took} ms`));

  const answer = make("td", "", word("outcome")[row.outcome]);
  if (row.outcome === "charged") answer.append(` ¥${row.cents / 100}`);
  if (row.receipt !== null) answer.append(make("div", "small", `${word("receipt")} ${row.receipt}`));
  if (row.code !== null) answer.append(make("div", "small", `${row.code}: ${row.text}`));
  if (row.reply_lost) answer.append(make("div", "small", word("lost")));

  const commands = Object.entries(row.commands).map(([name, times]) => (times > 1 ? `${name} ×${times}` : name));
  const line = make("tr");
  line.append(make("td", "", row.no), make("td", "", row.node + 1), when, answer, make("td", "commands", commands.join(", ") || word("cost_none")));
  return line;
}

// The grid.

function showCell(report) {
  reports.set(`${report.mechanism} ${report.scenario}`, report);
  const cell = $(`${report.mechanism} ${report.scenario}`);
  if (cell) fillCell(cell, report);
}

function fillCell(cell, report) {
  const [grade, verdict] = judge(report);
  cell.parentElement.className = grade;
  cell.replaceChildren(make("b", "", `${report.charges}/${report.intents}`), verdict);
}

function drawGrid() {
  const head = make("tr");
  head.append(make("td"), ...shop.scenarios.map((id) => scoped("col", word("scenario")[id][0])));
  $("columns").replaceChildren(head);
  $("rows").replaceChildren(...shop.mechanisms.map((mechanism) => {
    const row = make("tr");
    row.append(scoped("row", word("mechanism")[mechanism.id][0]));
    row.append(...shop.scenarios.map((scenario) => drawCell(mechanism, scenario)));
    return row;
  }));
}

function drawCell(mechanism, scenario) {
  const cell = make("td");
  const reason = mechanism.not_applicable[scenario];
  if (reason) {
    const none = make("span", "none", word("reason")[reason]);
    none.prepend(make("b", "", word("na")));
    cell.append(none);
    return cell;
  }
  const button = make("button");
  button.type = "button";
  button.id = `${mechanism.id} ${scenario}`;
  button.append(make("b", "", "–"));
  const names = `${word("mechanism")[mechanism.id][0]}, ${word("scenario")[scenario][0]}`;
  button.setAttribute("aria-description", names);
  button.onclick = () => play(mechanism.id, scenario);
  cell.append(button);
  const report = reports.get(button.id);
  if (report) fillCell(button, report);
  return cell;
}

// The chosen row, and the language.

function choose(id) {
  $("mechanism").value = id;
  const mechanism = shop.mechanisms.find((known) => known.id === id);
  $("when").textContent = word("mechanism")[id][1];
  $("breaks").textContent = word("mechanism")[id][2];
  $("file").textContent = `mechanisms/${id}.rs`;
  $("code").textContent = mechanism.code;
  $("scenarios").replaceChildren(...shop.scenarios.map((scenario) => {
    const button = make("button", "", word("scenario")[scenario][0]);
    button.type = "button";
    button.disabled = scenario in mechanism.not_applicable;
    if (button.disabled) button.append(` (${word("reason")[mechanism.not_applicable[scenario]]})`);
    button.onclick = () => play(id, scenario);
    return button;
  }));
}

function speak(language) {
  words = language;
  localStorage.setItem("language", language);
  document.documentElement.lang = language;
  document.title = word("title");
  $("language").textContent = language === "en" ? "中文" : "English";
  $("language").lang = language === "en" ? "zh" : "en";
  document.querySelectorAll("[data-word]").forEach((element) => { element.textContent = word(element.dataset.word); });
  const chosen = $("mechanism").value || shop.mechanisms[0].id;
  $("mechanism").replaceChildren(...shop.mechanisms.map(({ id }) => new Option(word("mechanism")[id][0], id)));
  choose(chosen);
  drawGrid();
  if (shown) show(shown);
}

function make(tag, name = "", text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function scoped(scope, text) {
  const head = make("th", "", text);
  head.scope = scope;
  return head;
}

attempt(async () => {
  shop = await ask("/api/shop");
  speak(words);
  $("language").onclick = () => speak(words === "en" ? "zh" : "en");
  $("mechanism").onchange = () => { choose($("mechanism").value); openPage(); };
  $("buy").onclick = buy;
  $("open").onclick = openPage;
  $("all").onclick = playAll;
  await openPage();
  listen();
})();
