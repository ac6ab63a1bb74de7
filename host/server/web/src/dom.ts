// Elements, made and found.

type Child = Node | string;

/** An element with attributes and children. `class` and `aria-…` are attributes like any other. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** The element with this id; the page's own files guarantee it. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) {
    throw new Error(`the page has no element "${id}"`);
  }
  return found as T;
}

/** A table with a heading row. Cells that are numbers are set flush right. */
export function table(caption: string, heads: string[], rows: (Child | number)[][]): HTMLTableElement {
  const numeric = heads.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === "number"));
  const kind = (column: number): Record<string, string> => (numeric[column] ? { class: "number" } : {});
  const head = el("tr", {}, ...heads.map((text, column) => el("th", { scope: "col", ...kind(column) }, text)));
  const body = rows.map((row) =>
    el("tr", {}, ...row.map((cell, column) => el("td", kind(column), typeof cell === "number" ? String(cell) : cell))),
  );
  return el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), el("tbody", {}, ...body));
}

/** Facts as a list of terms. */
export function facts(entries: [string, string][]): HTMLElement {
  const pairs = entries.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value)));
  return el("dl", { class: "facts" }, ...pairs);
}

/** Shows a message in an element that is hidden without one. */
export function show(element: HTMLElement, message: string): void {
  element.textContent = message;
  element.hidden = message === "";
}
