// Elements, made without any HTML: text from the data is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// A colour variable on an element; allowed by the content security policy, unlike style attributes.
export function withVariables(element, variables) {
  for (const [key, value] of Object.entries(variables)) element.style.setProperty(key, value);
  return element;
}
