// Replaces the browser for the script of the page, in node: browser.js BASE SCRIPT SCENARIO
//
// Prints all that the person saw, and the pauses of the script. Its clock runs 50 times as fast.

if (typeof fetch !== "function") {
  console.error(`this is node ${process.version}, and the script needs version 18 or newer`);
  process.exit(1);
}

const [base, script, scenario] = process.argv.slice(2);
const SPEED = 50;

const seen = { shown: [], messages: [], pauses: [], tokens: 0 };
let order;
let ends = [];

function end() {
  ends.forEach((resume) => resume());
  ends = [];
}

const stored = new Map();

const browser = {
  sessionStorage: {
    getItem: (name) => stored.get(name) ?? null,
    setItem: (name, value) => stored.set(name, value),
    removeItem: (name) => stored.delete(name),
  },
  fetch: (path, init) => fetch(new URL(path, base), init),
  setTimeout: (resume, ms) => {
    seen.pauses.push(ms);
    return setTimeout(resume, ms / SPEED);
  },
  form: new EventTarget(),
  button: { disabled: false },
  readOrder: () => order,
  show: (receipt) => {
    seen.shown.push(receipt);
    end();
  },
  tell: (words) => {
    seen.messages.push(words);
    end();
  },
  fetchToken: async () => {
    seen.tokens += 1;
  },
};

const page = new Function(...Object.keys(browser), `${script}\nreturn { submit, intent, renew };`)(...Object.values(browser));
const { submit, intent, renew } = page;

// Presses the button. Resolves when the page next shows something.
function press(what) {
  order = what;
  const ended = new Promise((resume) => ends.push(resume));
  browser.form.dispatchEvent(new Event("submit", { cancelable: true }));
  return ended;
}

// The id of the next press of the button, if the script has one.
function id() {
  return browser.sessionStorage.getItem("intent:order");
}

const AsyncFunction = (async () => {}).constructor;
const run = new AsyncFunction("seen", "press", "submit", "id", "intent", "renew", scenario);

setTimeout(() => {
  console.error("the scenario does not end");
  process.exit(1);
}, 300_000);

run(seen, press, submit, id, intent, renew).then(
  () => {
    console.log(JSON.stringify({ ...seen, id: id() }));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
