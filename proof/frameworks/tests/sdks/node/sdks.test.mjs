// SDKs of vendors, in Node. `./test-sdks` runs it.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";

import OpenAI from "openai";
import Stripe from "stripe";
import { Svix } from "svix";

const { SERVICE, PROXY } = process.env;

async function get(path) {
  return Number(await (await fetch(SERVICE + path)).text());
}

/** A text that only the requests of one test have. */
const text = () => `t${randomUUID().replaceAll("-", "")}`;

async function until(number, path) {
  for (const end = Date.now() + 30_000; (await get(path)) !== number; await sleep(10)) {
    assert.ok(Date.now() < end, `${path} is not ${number}`);
  }
}

async function assertOneEffect(text) {
  assert.equal(await get("/faults/0/0"), 0, "the faults happened");
  assert.equal(await get(`/effects/${text}`), 1);
}

const { hostname, port } = new URL(PROXY);

function charge(description, { retries = 3, amount = 1200, ...options } = {}) {
  const stripe = new Stripe("sk_test_1", {
    host: hostname,
    port: Number(port),
    protocol: "http",
    maxNetworkRetries: retries,
    telemetry: false,
  });
  return stripe.charges.create({ amount, currency: "eur", source: "tok_visa", description }, options);
}

test("stripe: a call whose replies are lost charges once", async () => {
  for (const lost of [0, 1, 2, 1, 2]) {
    const description = text();
    await get(`/faults/${lost}/0`);
    assert.match((await charge(description)).id, /^ch_/);
    await assertOneEffect(description);
  }
});

test("stripe: a repetition after a cut reply gets the first charge", async () => {
  const [description, idempotencyKey] = [text(), text()];
  await get("/faults/0/1");
  await assert.rejects(charge(description, { idempotencyKey, retries: 0 }), Stripe.errors.StripeError);
  const first = await charge(description, { idempotencyKey });
  const again = await charge(description, { idempotencyKey });
  assert.equal(first.id, again.id);
  assert.equal(again.lastResponse.idempotencyKey, idempotencyKey);
  assert.equal(again.lastResponse.headers["idempotent-replayed"], "true");
  await assertOneEffect(description);
});

test("stripe: another amount under the key is an idempotency error", async () => {
  const [description, idempotencyKey] = [text(), text()];
  await charge(description, { idempotencyKey });
  await assert.rejects(charge(description, { amount: 1300, idempotencyKey }), (error) => {
    assert.ok(error instanceof Stripe.errors.StripeIdempotencyError);
    assert.equal(error.statusCode, 400);
    return true;
  });
  await assertOneEffect(description);
});

test("stripe: a repetition of a running call is refused, or retried until it has the charge", async () => {
  const [description, idempotencyKey] = [`${text()}slowly`, text()];
  const running = charge(description, { idempotencyKey });
  await until(1, `/effects/${description}`);
  await assert.rejects(charge(description, { idempotencyKey, retries: 0 }), (error) => {
    assert.equal(error.statusCode, 409);
    assert.equal(error.code, "idempotency_key_in_use");
    return true;
  });
  const again = await charge(description, { idempotencyKey, retries: 5 });
  assert.equal((await running).id, again.id);
  await assertOneEffect(description);
});

test("stripe: a declined card is a card error and is not tried again", async () => {
  const [description, idempotencyKey] = [`${text()}declined`, text()];
  for (let call = 0; call < 2; call += 1) {
    await assert.rejects(charge(description, { idempotencyKey }), (error) => {
      assert.ok(error instanceof Stripe.errors.StripeCardError);
      assert.equal(error.code, "card_declined");
      return true;
    });
  }
  await assertOneEffect(description);
});

test("svix: a message whose replies are lost is sent once, with and without a key", async () => {
  const svix = new Svix("testsk_1", { serverUrl: PROXY });
  for (const lost of [0, 1, 2]) {
    for (const options of [undefined, { idempotencyKey: text() }]) {
      const order = text();
      await get(`/faults/${lost}/0`);
      const message = await svix.message.create("shop", { eventType: "paid", payload: { order } }, options);
      assert.match(message.id, /^msg_/);
      await assertOneEffect(order);
    }
  }
});

test("svix: a repetition of a running call waits for the first message", async () => {
  const svix = new Svix("testsk_1", { serverUrl: PROXY });
  const [order, idempotencyKey] = [`${text()}slowly`, text()];
  const send = () => svix.message.create("shop", { eventType: "paid", payload: { order } }, { idempotencyKey });
  const [first, again] = await Promise.all([send(), send()]);
  assert.equal(first.id, again.id);
  await assertOneEffect(order);
});

test("openai: a completion whose replies are lost is made once", async () => {
  const client = new OpenAI({ apiKey: "test", baseURL: `${PROXY}/openai`, maxRetries: 3 });
  for (const lost of [0, 1, 2]) {
    const content = text();
    await get(`/faults/${lost}/0`);
    const completion = await client.chat.completions.create(
      { model: "m", messages: [{ role: "user", content }] },
      { idempotencyKey: text(), headers: { "Idempotency-Key": text() } },
    );
    assert.equal(completion.choices[0].message.content, "yes");
    await assertOneEffect(content);
  }
});
