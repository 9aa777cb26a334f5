// Hides the rows of a page's tables that do not hold every word typed into its search box.
document.addEventListener("input", (event) => {
  if (!event.target.matches(".table-filter")) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("article table tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  for (const table of document.querySelectorAll("article table")) {
    table.hidden = ![...table.tBodies[0].rows].some((row) => !row.hidden);
  }
});
