"use strict";

const $ = (id) => document.getElementById(id);
let words = WORDS[localStorage.getItem("language")] ? localStorage.getItem("language") : "en";
const word = (key) => WORDS[words][key];

const MONEY = ["bank", "wallet"]; // where the money is taken
const BEST = ["replay", "http_layer", "dedup_row"]; // for a payment button

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

let opened = 0;

/// Opens a page of the chosen mechanism, so that the button belongs to it. If another page is opened meanwhile, that page stays.
async function newPage() {
  opened += 1;
  const turn = opened;
  $("buy").disabled = true;
  mechanismOfPage = $("mechanism").value;
  const answer = await ask("/api/pages", { mechanism: mechanismOfPage });
  if (turn !== opened) return;
  page = answer.page;
  $("buy").disabled = false;
}

const openPage = attempt(async () => {
  await newPage();
  await readPage();
});

/// The same with another mechanism.
const next = attempt(async () => {
  choose("replay");
  await openPage();
  $("buy").focus();
});

const buy = attempt(async () => {
  await ask(`/api/pages/${page}/clicks`, {});
  await readPage();
  $("result").scrollIntoView({ block: "nearest" });
});

const play = attempt(async (mechanism, scenario) => {
  choose(mechanism);
  const clicks = Number($("clicks").value) || 20;
  say("", word("running"));
  if (mechanism !== mechanismOfPage) await newPage();
  const report = await ask("/api/run", { mechanism, scenario, clicks });
  showCell(report);
  show(report);
  $("result").scrollIntoView({ block: "nearest" });
});

let playing = false;
const playAll = attempt(async () => {
  if (playing) return;
  playing = true;
  $("progress").textContent = word("running");
  const began = performance.now();
  try {
    await ask("/api/run-all", { clicks: Number($("clicks").value) || 20 });
    $("progress").textContent = `${word("done")} ${((performance.now() - began) / 1000).toFixed(1)} s`;
  } finally {
    playing = false;
  }
});

// The result of one run.

/// Good, a warning, or bad; and the word for it.
function judge(report) {
  const { charges, intents, verdict } = report;
  if (verdict === "charged") return ["bad", word("charged")(charges)];
  if (verdict === "once" && intents > 1) return ["good", word("verdict").as_wanted];
  const grade = ["blocked", "unnoticed", "no_receipt"].includes(verdict) ? "warn" : "good";
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
    let [grade, verdict] = judge(report);
    if (report.verdict === "same_receipt") verdict = word("once_and_same");
    const count = scenario ? word("sent")(clicks) : word("clicked")(clicks);
    const text = `${count}${word("wanted")(report.intents)} ${word("money")(report.cents / 100)}`;
    const mark = { good: "✓", warn: "!", bad: "✗" }[grade];
    const open = running && grade !== "bad";
    if (open) say("", `${text} …`);
    else say(grade, `${text} `, `${mark} ${verdict}`);
  }
  $("next").hidden = scenario !== null || report.charges <= report.intents;
  $("bills").replaceChildren(...Array.from({ length: report.charges }, (_, no) => {
    const cents = report.charges === 1 ? report.cents : shop.price;
    return make("span", no < report.intents ? "" : "bad", `¥${cents / 100}`);
  }));
  const end = Math.max(1, ...report.attempts.map((row) => row.at + row.took));
  const begin = Math.min(end - 1, ...report.attempts.map((row) => row.at));
  $("attempts").replaceChildren(...report.attempts.map((row) => timelineRow(row, begin, end)));
}

function say(grade, text, verdict = "") {
  $("result").className = grade;
  $("sentence").replaceChildren(text, make("b", "", verdict));
  $("bills").replaceChildren();
  $("next").hidden = true;
}

function timelineRow(row, begin, end) {
  const bar = make("div", `bar ${row.outcome}`);
  const share = (time) => `${(100 * time) / (end - begin)}%`;
  bar.style.left = `min(${share(row.at - begin)}, 100% - 6px)`;
  bar.style.width = share(row.took);
  const track = make("div", "track");
  track.append(bar);
  const when = make("td", "time");
  when.append(track, make("span", "small", word("times")(row.at - begin, row.took, row.node + 1)));

  const answer = make("td", "", word("outcome")[row.outcome]);
  if (row.outcome === "charged") answer.append(` ¥${row.cents / 100}`);
  if (row.receipt !== null) answer.append(make("div", "small", `${word("receipt")} ${row.receipt}`));
  if (row.code !== null) answer.append(make("div", "small", `${row.code}: ${row.text}`));
  if (row.reply_lost) answer.append(make("div", "small", word("lost")));

  const commands = Object.entries(row.commands).map(([name, times]) => (times > 1 ? `${name} ×${times}` : name));
  const line = make("tr");
  line.append(make("td", "", row.no), when, answer, make("td", "commands", commands.join(", ") || word("cost_none")));
  return line;
}

// The grid.

function showCell(report) {
  reports.set(`${report.mechanism} ${report.scenario}`, report);
  const cell = $(`${report.mechanism} ${report.scenario}`);
  if (!cell) return;
  fillCell(cell, report);
  sumUp(report.mechanism);
  showOurs();
}

function fillCell(cell, report) {
  const [grade, verdict] = judge(report);
  cell.parentElement.className = grade;
  cell.replaceChildren(make("b", "", `${report.charges}/${report.intents}`), verdict);
}

function drawGrid() {
  const head = make("tr");
  const columns = shop.scenarios.map((id) => scoped("col", word("scenario")[id][0]));
  head.append(make("td"), scoped("col", word("sum")), ...columns);
  $("columns").replaceChildren(head);
  $("rows").replaceChildren(...MONEY.flatMap(drawGroup));
  shop.mechanisms.forEach(({ id }) => sumUp(id));
  showOurs();
}

/// The rows whose money is at the bank, or in the wallet.
function drawGroup(money) {
  const head = make("tr");
  const title = scoped("rowgroup", word(money));
  title.className = "group";
  title.colSpan = 6;
  head.append(title);
  const members = shop.mechanisms.filter((mechanism) => mechanism.money === money);
  return [head, ...members.map((mechanism) => {
    const row = make("tr");
    const sum = make("td");
    sum.id = `sum ${mechanism.id}`;
    row.append(scoped("row", titleOf(mechanism.id)), sum);
    row.append(...shop.scenarios.map((scenario) => drawCell(mechanism, scenario)));
    return row;
  })];
}

/// How many payments of this mechanism were too many, and over how many runs.
function tooMany(id) {
  const known = shop.scenarios.map((scenario) => reports.get(`${id} ${scenario}`)).filter((report) => report);
  return [known.reduce((sum, { charges, intents }) => sum + Math.max(0, charges - intents), 0), known];
}

/// Shows how often a mechanism took too much, and its worst word.
function sumUp(id) {
  const [sum, known] = tooMany(id);
  const verdicts = known.map(judge);
  const [grade, verdict] = verdicts.find(([grade]) => grade === "bad") ?? verdicts.find(([grade]) => grade === "warn") ?? ["good", "✓"];
  const text = make("span", "sum");
  if (known.length === 0) text.append(make("b", "", "–"));
  else text.append(make("b", "", sum), grade === "bad" ? "✗" : verdict);
  $(`sum ${id}`).className = known.length === 0 ? "" : grade;
  $(`sum ${id}`).replaceChildren(text);
}

/// Our number, beside the numbers of the refund team.
function showOurs() {
  const rows = BEST.map(tooMany);
  const runs = rows.reduce((sum, [, known]) => sum + known.length, 0);
  const sum = rows.reduce((sum, [few]) => sum + few, 0);
  $("ours").className = runs === 0 ? "" : sum === 0 ? "good" : "bad";
  $("ours").firstElementChild.textContent = runs === 0 ? "?" : sum;
  $("ours").lastElementChild.textContent = runs === 0 ? word("ours_open") : word("ours")(runs);
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
  for (const button of $("scenarios").children) {
    const reason = mechanism.not_applicable[button.value];
    button.disabled = reason !== undefined;
    const name = word("scenario")[button.value][0];
    button.textContent = reason ? `${name} (${word("reason")[reason]})` : name;
  }
}

function speak(language) {
  words = language;
  localStorage.setItem("language", language);
  document.documentElement.lang = word("lang");
  document.title = word("title");
  $("language").textContent = word("other");
  $("language").lang = word("other_lang");
  document.querySelectorAll("[data-word]").forEach((element) => { element.textContent = word(element.dataset.word); });
  const chosen = $("mechanism").value || shop.mechanisms[0].id;
  $("mechanism").replaceChildren(...MONEY.map((money) => {
    const group = make("optgroup");
    group.label = word(money);
    const members = shop.mechanisms.filter((mechanism) => mechanism.money === money);
    group.append(...members.map(({ id }) => new Option(titleOf(id), id)));
    return group;
  }));
  $("runs_on").textContent = word("runs_on")(shop.store, shop.database);
  choose(chosen);
  drawGrid();
  if (shown) show(shown);
}

function drawScenarios() {
  $("scenarios").replaceChildren(...shop.scenarios.map((scenario) => {
    const button = make("button");
    button.type = "button";
    button.value = scenario;
    button.onclick = () => play($("mechanism").value, scenario);
    return button;
  }));
}

function make(tag, name = "", text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/// The name of a mechanism, with a star if a payment button should have it.
function titleOf(id) {
  return `${BEST.includes(id) ? "★ " : ""}${word("mechanism")[id][0]}`;
}

function scoped(scope, text) {
  const head = make("th", "", text);
  head.scope = scope;
  return head;
}

attempt(async () => {
  shop = await ask("/api/shop");
  drawScenarios();
  speak(words);
  $("language").onclick = () => speak(words === "en" ? "zh" : "en");
  $("mechanism").onchange = () => { choose($("mechanism").value); openPage(); };
  $("buy").onclick = buy;
  $("open").onclick = openPage;
  $("next").onclick = next;
  $("all").onclick = playAll;
  await openPage();
  listen();
})();
