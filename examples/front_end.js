// A front end that retries correctly: one id for each intention of the person, the same id for each retry, and a new id only when
// the outcome is known.
//
// Your page defines `form`, `button`, `readOrder()`, `show(receipt)`, `tell(words, problem)`, and `fetchToken()`, which puts a new
// one-time token into the form. A form without tokens has `const fetchToken = async () => {};`. `show(null)` shows no message and loads
// the state again. `tell` gets the problem, and can show how long a counter is full.
//
// `examples/tests/examples/front_end.rs` runs this script against a service.

const INTENT = "intent:order"; // one for each form
const PATIENCE = 60_000; // the longest time in ms that the script pauses for one press of the button
const UNKNOWN = ["lease_lost", "outcome_unknown", "taken"]; // the work may be done or not, so the next try keeps the id

const OF_THIS_TRY = ["payload_mismatch", "scope_missing"]; // refusals of this try, which say nothing about an earlier try

// The id of the current intention. It survives a reload of the page. In localStorage all tabs would share it, and
// the second of two honest orders would look like a duplicate.
function intent() {
  let id = sessionStorage.getItem(INTENT);
  if (!id) {
    id = crypto.randomUUID();
    sessionStorage.setItem(INTENT, id);
  }
  return id;
}

// Removes the id, so that the next press makes a new one. The page calls `renew(intent())` when the state that it has loaded shows the
// order, or when the person wants a changed order as a new one.
function renew(id) {
  if (sessionStorage.getItem(INTENT) === id) sessionStorage.removeItem(INTENT);
}

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

// One try: the answer, or a problem. Proxies and networks make problems, too.
async function send(id, body) {
  let response, text, json;
  try {
    response = await fetch("/orders", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": `"${id}"` },
      body,
      signal: AbortSignal.timeout(10_000),
    });
    text = await response.text();
  } catch {
    // The request may have worked, so the next try has the same id.
    return { problem: { client_action: "wait", detail: "No connection. Please try again." } };
  }
  try {
    json = JSON.parse(text);
  } catch {
    // The text is a page, or a sentence.
  }
  if (response.ok && json !== undefined) return { answer: json };
  if (json?.client_action) return { problem: json };
  const { ok, status, headers } = response;
  const refused = !ok && status < 500; // the handler, or a layer before it, refused: its sentence is for the person
  const sentence = refused && headers.get("Content-Type")?.startsWith("text/plain") && text;
  // `ok` without JSON: the network sent its login page instead of the answer. `own`: not an action of the library.
  const later = ok || [408, 429, 502, 503, 504].includes(status);
  return {
    problem: {
      client_action: later ? "wait" : "own",
      retry_after_ms: Number(headers.get("Retry-After")) * 1000 || undefined,
      detail: json?.detail || sentence || "The service is not available. Please try again.",
    },
  };
}

// Returns the answer, or `null` if the page must load the state: an equal request has the answer, or is still running.
// Throws the words for the person.
async function submit(order) {
  const id = intent(); // all tries of this submit use this id, even if another submit removes it meanwhile
  const body = JSON.stringify(order);
  let patience = PATIENCE;
  for (let backoff = 1000; ; backoff *= 2) {
    const { answer, problem } = await send(id, body);
    if (!problem) {
      renew(id);
      return answer;
    }
    const ms = problem.retry_after_ms ?? backoff;
    if (problem.client_action === "wait" && ms <= patience) {
      patience -= ms;
      await pause(ms);
      continue;
    }
    switch (problem.client_action) {
      case "wait": // keeps the id: the next press has the same intention
        break;
      case "own": // an error of the body: the next try has the same intention, so it keeps the id; the token is used
        await fetchToken();
        break;
      case "new_token": // an earlier try may have worked, so the next try keeps the id
        await fetchToken();
        break;
      case "fix":
        // Operators must fix the server, or an earlier try may have worked: its session was valid, or its order was another.
        if (problem.status >= 500 || OF_THIS_TRY.includes(problem.code)) break;
        renew(id);
        break;
      default: // ignore, refresh
        if (!UNKNOWN.includes(problem.code)) renew(id);
    }
    if (problem.silent) return null;
    throw new Error(problem.detail, { cause: problem });
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (button.disabled) return;
  button.disabled = true;
  try {
    show(await submit(readOrder()));
  } catch (error) {
    tell(error.message, error.cause);
  } finally {
    button.disabled = false;
  }
});
