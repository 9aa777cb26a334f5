"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const mouse = window.matchMedia("(pointer: fine)");
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");

  // Figures: plotly and the figures' data are packed in this file and unpacked here.
  const config = {
    displaylogo: false,
    // A finger would have the buttons over the figure all the time.
    displayModeBar: mouse.matches ? "hover" : false,
    // By default plotly has a button that sends the data to a server of its makers.
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  };
  const PRINT_WIDTH = { single: 680, grid: 330 };
  let packed = null;

  async function unpack(id) {
    const text = atob(document.getElementById(id).textContent.trim());
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function draw(div, name, width) {
    const figure = packed.figures[div.id];
    const layout = { ...figure.layout, template: packed.templates[name] };
    if (width) layout.width = width;
    else layout.autosize = true;
    // A finger scrolls the page; a mouse zooms into the figure.
    if (layout.dragmode === false && mouse.matches) layout.dragmode = "zoom";
    // The template is only read where the layout is a new one: a copy, as plotly writes into it.
    return Plotly.react(div, figure.data, structuredClone(layout), config);
  }

  function drawAll(name, width) {
    if (!packed) return;
    for (const div of document.querySelectorAll(".plot")) {
      const kind = div.closest(".grid") ? "grid" : "single";
      draw(div, name, width ? PRINT_WIDTH[kind] : 0);
    }
  }

  // Not plotly's own: it hears of the window only, not of a scroll bar or a changed column.
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const drawn = target._fullLayout;
      // What is folded away has no width, and gets one when it is opened.
      if (drawn && target.clientWidth && !target.layout.width && Math.abs(drawn.width - target.clientWidth) > 1)
        Plotly.Plots.resize(target);
    }
  });

  function broken(message) {
    const line = document.getElementById("broken");
    line.textContent = message;
    line.hidden = false;
    for (const div of document.querySelectorAll(".plot")) div.closest("figure").hidden = true;
    root.dataset.figures = "broken";
  }

  async function begin() {
    if (!document.getElementById("packed-figures")) {
      root.dataset.figures = "none";
      return;
    }
    if (typeof DecompressionStream === "undefined") {
      broken("This browser is too old to unpack the figures (it has no DecompressionStream: " +
        "Chrome 80, Firefox 113 and Safari 16.4 have it). Text and tables are complete.");
      return;
    }
    try {
      const script = document.createElement("script");
      script.textContent = await unpack("packed-plotly");
      document.head.append(script);
      packed = JSON.parse(await unpack("packed-figures"));
      for (const div of document.querySelectorAll(".plot")) {
        await draw(div, theme(), 0);
        watch.observe(div);
        await new Promise((done) => setTimeout(done)); // the page stays alive in between
      }
      root.dataset.figures = "drawn";
    } catch (error) {
      broken(`The figures could not be drawn (${error}). The words and tables are all here.`);
    }
  }

  // The theme: the system's, until the button is pressed.
  const button = document.getElementById("theme");
  function label() {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${button.textContent.toLowerCase()} theme`);
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    label();
    drawAll(theme());
  });
  dark.addEventListener("change", () => {
    label();
    drawAll(theme());
  });
  label();

  // Tables: sorted by a column, folded to the first rows.
  const order = (row, column) => {
    const cell = row.cells[column];
    return "order" in cell.dataset ? Number(cell.dataset.order) : cell.textContent.trim();
  };
  const missing = (value) => value === "–" || value === "";
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  function sort(table, column, sign) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [order(row, column), row]);
    rows.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : sign * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const press = document.createElement("button");
      press.type = "button";
      press.textContent = head.textContent;
      head.replaceChildren(press);
      press.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        sort(table, column, up ? 1 : -1);
      });
    });
    if (!table.dataset.top) continue;
    const total = table.tBodies[0].rows.length;
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    const fold = (folded) => {
      table.classList.toggle("folded", folded);
      more.textContent = folded ? `Show all ${total}` : `Show the first ${table.dataset.top}`;
      more.setAttribute("aria-expanded", String(!folded));
    };
    more.addEventListener("click", () => fold(!table.classList.contains("folded")));
    fold(true);
    table.closest(".scroll").after(more);
  }

  // A link to something folded opens it.
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  window.addEventListener("hashchange", openTarget);
  openTarget();

  // On paper: light, as wide as the page, everything opened; of the trials' commands the first ones.
  const PRINTED = "details:not([open]):not(.many > :nth-child(n+11))";
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(PRINTED)) {
      details.open = true;
      details.dataset.folded = "";
    }
    drawAll("light", true);
  });
  window.addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-folded]")) {
      details.open = false;
      delete details.dataset.folded;
    }
    drawAll(theme());
  });
  begin();
})();
