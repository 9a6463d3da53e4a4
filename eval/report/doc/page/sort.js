// Sorts a table by the column whose head is clicked. A second click reverses the order.
// Numbers are compared by data-key, other fields by their text; numbers come first.
for (const head of document.querySelectorAll("table.sortable thead th")) {
  head.firstElementChild.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const h of head.parentNode.children) h.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => {
      const field = row.cells[head.cellIndex];
      return field.dataset.key === undefined ? field.textContent : Number(field.dataset.key);
    };
    const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
    const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b)));
    body.append(...rows);
  });
}

// Opens the section that the address of the page names, and the folds around it.
function unfold() {
  const section = document.getElementById(location.hash.slice(1));
  for (let e = section && (section.querySelector(":scope > details") || section); e; e = e.parentElement) {
    if (e.tagName === "DETAILS") e.open = true;
  }
}
addEventListener("hashchange", unfold);
unfold();
