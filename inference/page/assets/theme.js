// Light and dark: the system's by default, or what the switch says.

import { fill } from "./elements.js";

const CHOICES = ["auto", "light", "dark"];
const STORED = "trivium-theme";

/** Make a button a switch between the system's colours, light and dark; it is remembered. */
export function themeSwitch(button) {
  let chosen = Math.max(0, CHOICES.indexOf(remembered()));
  const apply = () => {
    document.documentElement.dataset.theme = CHOICES[chosen];
    fill(button, `Colours: ${CHOICES[chosen]}`);
    document.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    chosen = (chosen + 1) % CHOICES.length;
    remember(CHOICES[chosen]);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

// A browser may refuse storage, to a file above all.
function remembered() {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

function remember(choice) {
  try {
    localStorage.setItem(STORED, choice);
  } catch {
    // Then it holds as long as the page is open.
  }
}
