"use strict";
for (const figure of document.querySelectorAll("figure.data")) {
  const body = figure.querySelector("tbody");
  const heads = [...figure.querySelectorAll("thead th")];
  const key = (row, column) => row.cells[column].dataset.key ?? row.cells[column].textContent;
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const compared = (a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      // Empty cells come last, whichever way.
      if (x === "" || y === "") return (x === "") - (y === "");
      const [u, v] = [Number(x), Number(y)];
      return sign * (Number.isNaN(u) || Number.isNaN(v) ? x.localeCompare(y) : u - v);
    };
    body.append(...[...body.rows].sort(compared));
  }));
  const input = figure.querySelector("input");
  if (!input) continue;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    figure.querySelector("output").textContent = words.length ? `${shown} of ${body.rows.length} rows` : "";
  });
}
