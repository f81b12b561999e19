// The page of the shop in a real browser. ./test-browser sets SHOP, the program, and CHROMIUM, the browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import { chromium } from "playwright-core";

const SCREENSHOTS = fileURLToPath(new URL("../../../target/shop/", import.meta.url));

// How often each mechanism takes money too often when all scenarios have run, and the worst word of its row.
const SUMS = {
  unprotected: "24 ✗",
  check_then_set: "22 ✗",
  fingerprint_released: "3 ✗",
  fingerprint_held: "1 ✗",
  page_counter: "0 paid, no receipt",
  token: "0 paid, no receipt",
  fenced_lock: "1 ✗",
  replay: "0 ✓",
  steps: "0 ✓",
  http_layer: "0 ✓",
  bloom: "0 mistake unnoticed",
  order_number: "0 mistake unnoticed",
  unique_index: "0 mistake unnoticed",
  transition: "0 mistake unnoticed",
  dedup_row: "0 ✓",
};

let shop;
let url;
let browser;
const elsewhere = []; // requests that left this machine
const complaints = []; // errors and warnings in the console

before(async () => {
  shop = spawn(process.env.SHOP, ["127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => shop.kill("SIGINT"));
  for await (const line of createInterface(shop.stdout)) {
    url = line.replace("listening on ", "");
    break;
  }
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const args = ["--disable-gpu", "--disable-quic", "--disable-sync"];
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
});

after(async () => {
  await browser?.close();
  shop?.kill("SIGINT"); // so it removes its files
});

/// Opens the page in a new profile.
async function open({ width = 1280 } = {}) {
  const height = width < 600 ? 844 : 800;
  const context = await browser.newContext({ viewport: { width, height } });
  await context.addInitScript({ content: axe.source });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`)) elsewhere.push(request.url());
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(url);
  await page.waitForSelector("#buy:enabled");
  return page;
}

/// Waits until the sentence about the money contains all of these.
async function sentence(page, ...parts) {
  const has = (expected) => expected.every((part) => document.getElementById("sentence").textContent.includes(part));
  await page.waitForFunction(has, parts).catch(() => {});
  const text = await page.textContent("#sentence");
  for (const part of parts) assert.ok(text.includes(part), `"${part}" is missing in: ${text}`);
}

async function runAll(page) {
  await page.click("#all");
  await page.waitForFunction(() => /\d s$/.test(document.getElementById("progress").textContent));
}

test("a double click pays twice without protection, and once with replay", async () => {
  const page = await open();
  assert.deepEqual(await page.locator(".numbers b").allTextContents(), ["25", "7", "1", "?"]);
  await page.dblclick("#buy");
  await sentence(page, "You clicked 2×.", "¥198", "✗ charged twice");
  assert.deepEqual(await page.locator("#bills span").allTextContents(), ["¥99", "¥99"]);
  await page.click("#next");
  await sentence(page, "Double-click “Buy for ¥99”.");
  await page.dblclick("#buy");
  await sentence(page, "You clicked 2×.", "¥99.", "✓ paid once, same receipt");
  const answers = await page.locator("#attempts td:nth-child(3)").allTextContents();
  // The second click may reach the store first.
  assert.deepEqual(answers.sort(), ["got the same receiptreceipt 1", "paid ¥99receipt 1"]);
  await page.context().close();
});

test("run all fills the grid with what the server counted, and with our number", async () => {
  const page = await open();
  await runAll(page);
  const { mechanisms, scenarios } = await (await fetch(`${url}/api/shop`)).json();
  const { reports } = await (await fetch(`${url}/api/state`)).json();
  assert.equal(await page.locator(".grid tbody tr > td").count(), mechanisms.length * (scenarios.length + 1));
  for (const { mechanism, scenario, charges, intents } of reports) {
    const cell = page.locator(`[id="${mechanism} ${scenario}"]`);
    assert.equal(await cell.locator("b").textContent(), `${charges}/${intents}`);
    const isBad = (await cell.locator("..").getAttribute("class")) === "bad";
    assert.equal(isBad, charges > intents, `${mechanism} ${scenario}`);
  }
  const sums = {};
  for (const { id } of mechanisms) {
    const sum = page.locator(`[id="sum ${id}"]`);
    const number = await sum.locator("b").textContent();
    sums[id] = `${number} ${(await sum.textContent()).slice(number.length)}`;
  }
  assert.deepEqual(sums, SUMS);
  assert.equal(await page.textContent("#ours b"), "0");
  // A second page reads the grid that the first page filled.
  const second = await open();
  await second.waitForFunction(() => document.querySelector("#ours b").textContent === "0");
  await second.context().close();
  await page.context().close();
});

test("a click on a cell shows its clicks and its code", async () => {
  const page = await open();
  await page.click('[id="fenced_lock crash"]');
  await sentence(page, "2 clicks.", "¥198", "✗ charged twice");
  assert.equal(await page.inputValue("#mechanism"), "fenced_lock");
  assert.equal(await page.locator("#attempts tr").count(), 2);
  await page.click("summary");
  assert.match(await page.innerText("#code"), /impl Mechanism for FencedLock/);
  await page.context().close();
});

test("the whole page changes its language, and keeps it", async () => {
  const page = await open();
  await page.dblclick("#buy");
  await sentence(page, "✗ charged twice");
  await page.click("#language");
  await sentence(page, "你点了 2 次。", "198 元", "✗ 扣了 2 次");
  const english = () => {
    const texts = [...document.querySelectorAll("[data-word], select option, th, #scenarios button, #when, #breaks, td")];
    const isEnglish = (text) => /[A-Za-z]/.test(text) && !/\p{Script=Han}/u.test(text);
    return texts.map((element) => element.textContent).filter(isEnglish);
  };
  assert.deepEqual(await page.evaluate(english), []);
  await page.reload();
  await page.waitForSelector("#buy:enabled");
  assert.equal(await page.getAttribute("html", "lang"), "zh-CN");
  await page.context().close();
});

test("the keyboard alone is enough", async () => {
  const page = await open();
  // Presses Tab until the element has the focus, which must be visible.
  const tabTo = async (selector) => {
    for (let presses = 0; presses < 60; presses += 1) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) {
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineWidth);
        assert.equal(outline, "3px", `the outline of ${selector}`);
        return;
      }
    }
    assert.fail(`Tab does not reach ${selector}`);
  };
  await tabTo("#mechanism");
  while ((await page.inputValue("#mechanism")) !== "replay") await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => !document.getElementById("buy").disabled);
  await tabTo("#buy");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await sentence(page, "You clicked 2×.", "¥99.", "✓ paid once, same receipt");
  await tabTo('#scenarios [value="storm"]');
  await page.keyboard.press("Space");
  await sentence(page, "20 clicks.", "¥99.", "✓ paid once, same receipt");
  const focused = await page.evaluate(() => document.activeElement.value);
  assert.equal(focused, "storm", "the focus stays where it was");
  await tabTo("#all");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /\d s$/.test(document.getElementById("progress").textContent));
  await tabTo('[id="unprotected double_click"]');
  await page.keyboard.press("Enter");
  await sentence(page, "✗ charged twice");
  await page.context().close();
});

test("contrast, labels and widths are right on a desk and on a phone, light and dark, in both languages", async () => {
  mkdirSync(SCREENSHOTS, { recursive: true });
  for (const width of [1280, 390]) {
    const page = await open({ width });
    await page.waitForFunction(() => document.querySelector("#ours b").textContent === "0");
    await page.dblclick("#buy");
    await sentence(page, "✗");
    for (const language of ["en", "zh-CN"]) {
      if (language !== "en") await page.click("#language");
      assert.equal(await page.getAttribute("html", "lang"), language);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        await check(page, `${width}-${colorScheme}-${language}`, width);
      }
    }
    await page.context().close();
  }
});

/// Saves screenshots, and asks axe-core. The code is open while axe looks, and in the picture of the whole page.
async function check(page, name, width) {
  await page.screenshot({ path: `${SCREENSHOTS}${name}.png` });
  await page.click("summary");
  await page.screenshot({ path: `${SCREENSHOTS}${name}-whole.png`, fullPage: true });
  const found = await page.evaluate(() => window.axe.run());
  const violations = found.violations.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html)]);
  assert.deepEqual(violations, [], name);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(sideways <= width, `${name} is ${sideways} wide`);
  await page.click("summary");
  await page.evaluate(() => window.scrollTo(0, 0));
}

test("no request left this machine, and the console has no complaint", () => {
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(complaints, []);
});
