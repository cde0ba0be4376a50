// Colours as the current theme has them, for what is not styled by CSS; and the button that changes it.

const listeners = [];

export function onTheme(listener) {
  listeners.push(listener);
}

// Each is asked of the browser once: a graph asks for thousands.
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim());
    return known.get(name);
  };
}

export function themeButton(button) {
  const show = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Change to light colours" : "Change to dark colours");
  };
  button.hidden = false;
  button.addEventListener("click", () => window.noraTheme.toggle());
  new MutationObserver(() => {
    show();
    for (const listener of listeners) listener();
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  show();
}
