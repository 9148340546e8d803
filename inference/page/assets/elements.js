// Every element is made here. What a document or a model wrote comes in as text, never as markup.

/** Return an element. A child that is null or false is left out; a string becomes text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...present(children));
  return made;
}

/** Return a button that calls `onClick`. */
export function button(onClick, attributes, ...children) {
  const made = element("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", onClick);
  return made;
}

/** Put children in place of all that an element holds. */
export function fill(parent, ...children) {
  parent.replaceChildren(...present(children));
}

/** Return the element below `parent` with this `data-role`. */
export function role(parent, name) {
  return parent.querySelector(`[data-role="${name}"]`);
}

/** Show a message in a notice, or hide it where the message is empty. */
export function notice(place, message, ...more) {
  place.hidden = !message;
  fill(place, message || null, ...more);
}

/** Return "1 triple", "2 triples". */
export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function present(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false);
}
