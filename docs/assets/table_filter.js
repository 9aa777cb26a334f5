// While its search box holds words, a page shows only the table rows that have all of them, below their headings.
document.addEventListener("input", (event) => {
  if (!event.target.matches(".table-filter")) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  const children = [...event.target.closest("article").children];
  let heading = null;
  for (const child of children) {
    if (child.tagName === "H1" || child.contains(event.target)) continue;
    const table = child.matches("table") ? child : child.querySelector("table");
    child.hidden = words.length > 0;
    if (child.tagName === "H2") heading = child;
    if (!table) continue;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (row.hidden) continue;
      child.hidden = false;
      if (heading) heading.hidden = false;
    }
  }
});
