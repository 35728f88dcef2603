"use strict";
// Makes a table's headings sort it by their columns. Rows without a number come last either way; names go by letter.
const sortable = (table) => {
  const text = (row, column) => row.cells[column].textContent.trim();
  const value = (row, column) => {
    const number = parseFloat(text(row, column).replace(/^</, ""));
    return Number.isNaN(number) ? undefined : number;
  };
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.textContent = cell.textContent;
    button.type = "button";
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        const [left, right] = [value(a, column), value(b, column)];
        if (left === undefined && right === undefined) {
          return column ? 0 : (down ? -1 : 1) * text(a, column).localeCompare(text(b, column));
        }
        if (left === undefined || right === undefined) return (left === undefined) - (right === undefined);
        return down ? right - left : left - right;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
    });
  });
};
// Where a table is wider than its place, a line below it says so.
for (const wide of document.querySelectorAll(".wide")) {
  const cue = document.createElement("p");
  cue.className = "cue";
  cue.textContent = "More columns to the right: scroll the table sideways.";
  wide.after(cue);
  const look = () => { cue.hidden = wide.scrollWidth <= wide.clientWidth + 1; };
  look();
  addEventListener("resize", look);
  wide.closest("details")?.addEventListener("toggle", look);
}
