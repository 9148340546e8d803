// The page: its views, the key, and the forms that ask.

import { Asking } from "./asking.js";
import { Browser } from "./browse.js";
import { element, fill, notice, role } from "./elements.js";
import { Passages } from "./passage.js";
import { moveByKeys } from "./run.js";
import { Server } from "./server.js";
import { themeSwitch } from "./theme.js";

const VIEWS = ["ask", "compare", "traces"];
const NO_LOOP = "This server offers no loop. Start inference/serve.py with --loops and --corpus.";

function start() {
  themeSwitch(document.getElementById("theme"));
  document.addEventListener("keydown", moveByKeys);
  const data = document.getElementById("data");
  if (data) startFile(JSON.parse(data.textContent));
  else startServed();
}

/** A file of inference/view.py: the traces are in it, and there is no server. */
function startFile({ title, traces, passages }) {
  document.querySelector("nav").hidden = true;
  document.title = title;
  const texts = new Passages();
  texts.add(passages);
  document.getElementById("traces").hidden = false;
  new Browser(document.getElementById("traces"), texts).open(traces, title);
}

function startServed() {
  const server = new Server(askForKey);
  const texts = new Passages(server);
  const compare = document.getElementById("compare");
  const forms = [
    questionForm(document.getElementById("ask"), server, { run: "loop" }, texts),
    questionForm(compare, server, { first: "first", second: "second" }, texts),
  ];
  for (const side of ["first", "second"]) {
    const select = compare.querySelector("form").elements[side];
    select.addEventListener("change", () => nameSide(side, select.value));
  }
  new Browser(document.getElementById("traces"), texts);
  addEventListener("hashchange", showView);
  showView();
  offerLoops(server, forms);
}

function showView() {
  const view = VIEWS.find((name) => location.hash === `#${name}`) ?? VIEWS[0];
  for (const name of VIEWS) document.getElementById(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    link.setAttribute("aria-current", link.hash === `#${view}` ? "page" : "false");
  }
  // The browser has gone to the section, past the header.
  scrollTo(0, 0);
}

/**
 * Make a form ask what its selects say. runs: the name of the select, by the role of the place
 * where the answer goes.
 */
function questionForm(section, server, runs, texts) {
  const form = section.querySelector("form");
  const { stop, question } = form.elements;
  let running = 0;
  const onState = (begins) => {
    running += begins ? 1 : -1;
    stop.disabled = running === 0;
  };
  const askings = Object.entries(runs).map(([place, select]) => {
    const asking = new Asking(server, texts, onState);
    role(section, place).append(asking.root);
    return { asking, select: form.elements[select] };
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (question.value.trim() === "") return;
    for (const { asking, select } of askings) asking.ask(select.value, question.value.trim());
  });
  stop.addEventListener("click", () => askings.forEach(({ asking }) => asking.stop()));
  return { form, selects: askings.map(({ select }) => select), problem: role(section, "models") };
}

async function offerLoops(server, forms) {
  let loops = [];
  let problem = "";
  try {
    loops = await server.loops();
    problem = loops.length === 0 ? NO_LOOP : "";
  } catch (error) {
    problem = error.message;
  }
  for (const { form, selects, problem: place } of forms) {
    form.querySelector("[type=submit]").disabled = loops.length === 0;
    notice(place, problem);
    selects.forEach((select, number) => {
      fill(select, ...loops.map((name) => element("option", { value: name }, name)));
      select.value = loops[Math.min(number, loops.length - 1)] ?? "";
      select.dispatchEvent(new Event("change"));
    });
  }
}

function nameSide(side, loop) {
  document.getElementById(`${side}-heading`).textContent = loop || side;
}

/** Show the field for the key and return a promise of what is put in. */
function askForKey(refused) {
  const form = document.getElementById("key");
  const field = document.getElementById("key-value");
  const text = refused ? "The server does not know this key." : "This server wants a key.";
  document.getElementById("key-label").textContent = text;
  form.hidden = false;
  field.focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      const key = field.value;
      field.value = "";
      form.hidden = true;
      resolve(key);
    };
  });
}

start();
