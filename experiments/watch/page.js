"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const mouse = window.matchMedia("(pointer: fine)");
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const look = JSON.parse(document.getElementById("look").textContent);
  const element = (id) => document.getElementById(id);

  // What is known of the sweep: as the messages of `updates.py` have it.
  let head = null;
  let order = [];
  const nothing = () => Object.create(null); // a trial may be called anything, `__proto__` too
  let rows = nothing();
  let curves = nothing();
  let byTime = false;

  const NAMED = 60; // so many trials have a curve of their own with a name; the others share one
  const TOP = 20; // rows before one asks for all, besides those of running trials
  const HEIGHT = 400;
  const config = {
    displaylogo: false,
    displayModeBar: mouse.matches ? "hover" : false,
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  };

  // -- words ------------------------------------------------------------------------------------
  function showHead() {
    element("headline").textContent = head.headline;
    element("headline").dataset.phase = head.phase;
    element("words").textContent = head.words.join(" ");
    element("report").hidden = !head.report;
    document.title = `${head.headline} · ${head.name}`;
    const items = head.failures.map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    });
    element("failures").replaceChildren(...items);
    element("failures").hidden = items.length === 0;
  }

  // -- table ------------------------------------------------------------------------------------
  function cell(text, place) {
    const found = document.createElement("td");
    if (head.numeric[place]) {
      found.className = "number";
      found.textContent = text;
      return found;
    }
    const inner = document.createElement("span");
    inner.className = "text";
    inner.textContent = inner.title = text;
    found.append(inner);
    return found;
  }

  function line(id) {
    const row = document.createElement("tr");
    const { status, cause, cells } = rows[id];
    row.append(...[id, status, ...cells].map(cell));
    row.cells[1].dataset.status = status;
    if (cause) row.cells[1].title = row.cells[1].firstChild.title = cause;
    row.classList.toggle("marked", id === best());
    row.classList.toggle("running", status === "running");
    return row;
  }

  function showTable() {
    const table = element("trials");
    const titles = head.columns.map((name, place) => {
      const title = document.createElement("th");
      title.scope = "col";
      title.textContent = name.replace(/[_/]/g, "$&\u200b"); // may be folded there
      if (head.numeric[place]) title.className = "number";
      return title;
    });
    table.tHead.rows[0].replaceChildren(...titles);
    table.tBodies[0].replaceChildren(...order.map(line));
    element("more").hidden = order.length <= TOP;
    fold(table.classList.contains("short"));
  }

  function fold(short) {
    element("trials").classList.toggle("short", short);
    element("more").textContent = short ? `Show all ${order.length} trials` : "Show fewer";
    element("more").setAttribute("aria-expanded", String(!short));
  }
  element("more").addEventListener("click", () => fold(!element("trials").classList.contains("short")));

  // -- curves -----------------------------------------------------------------------------------
  // Plotly takes `<b>` and `<a href=…>` for markup.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const best = () => (order.length && known(order[0], 0) ? order[0] : null);
  const known = (id, place) => (curves[id]?.values[place] || []).some((value) => value !== null);

  function append(id, more) {
    const old = more.from ? curves[id] : null;
    const joined = (before, after) => [...(before || []).slice(0, more.from), ...after];
    curves[id] = {
      steps: joined(old?.steps, more.steps),
      seconds: joined(old?.seconds, more.seconds),
      values: more.values.map((values, place) => joined(old?.values[place], values)),
    };
  }

  function timeUnit() {
    let greatest = 0;
    for (const { seconds } of Object.values(curves))
      for (const value of seconds) if (value > greatest) greatest = value;
    if (greatest > 7200) return ["h", 3600];
    return greatest > 300 ? ["min", 60] : ["s", 1];
  }

  // A trial that lacks a value at some result goes on behind it.
  function line2d(id, place, divisor) {
    const curve = curves[id];
    const x = [], y = [];
    const budget = byTime ? curve.seconds : curve.steps;
    curve.values[place].forEach((value, at) => {
      if (value === null || budget[at] === null) return;
      x.push(budget[at] / divisor);
      y.push(value);
    });
    return { x, y };
  }

  function trace(id, place, divisor, isBest) {
    const color = isBest ? look.colors.best : look.colors.other;
    const { x, y } = line2d(id, place, divisor);
    return {
      x, y, type: "scatter", mode: x.length === 1 ? "markers" : "lines", name: plain(id),
      line: { color, width: isBest ? 2.8 : 1.2 }, marker: { color, size: 6 }, opacity: isBest ? 1 : 0.75,
      hovertemplate: `<b>${plain(id)}</b>: %{y:.4~g} at %{x:.4~s}<extra></extra>`,
    };
  }

  function shared(ids, place, divisor) {
    const x = [], y = [];
    for (const id of ids) {
      const found = line2d(id, place, divisor);
      x.push(...found.x, null);
      y.push(...found.y, null);
    }
    return {
      x, y, type: "scatter", mode: "lines", name: "other trials", hoverinfo: "skip",
      line: { color: look.colors.other, width: 1 }, opacity: Math.min(0.5, Math.max(0.12, NAMED / ids.length)),
    };
  }

  function draw(div, figure, place) {
    const [unit, divisor] = byTime ? timeUnit() : ["", 1];
    const drawn = order.filter((id) => known(id, place));
    const first = best();
    const named = drawn.slice(0, NAMED).filter((id) => id !== first);
    const traces = drawn.length > NAMED ? [shared(drawn.slice(NAMED), place, divisor)] : [];
    traces.push(...named.reverse().map((id) => trace(id, place, divisor, false)));
    if (first && known(first, place)) traces.push(trace(first, place, divisor, true));
    const across = byTime ? `training time (${unit})` : head.steps;
    const layout = {
      height: HEIGHT, autosize: true, showlegend: false, hovermode: "closest", uirevision: String(byTime),
      dragmode: mouse.matches ? "zoom" : false,
      xaxis: { title: { text: plain(across) }, tickformat: byTime ? "" : "~s", nticks: 7, rangemode: "tozero" },
      yaxis: { title: { text: plain(figure.label) } },
      template: structuredClone(look.templates[theme()]),
    };
    div.setAttribute("aria-label", `Learning curves of ${drawn.length} trials: ${figure.label}`);
    Plotly.react(div, traces, layout, config);
  }

  function showCurves() {
    const place = element("figures");
    const divs = [...place.children];
    while (divs.length < head.figures.length) {
      const figure = document.createElement("figure");
      const div = document.createElement("div");
      const caption = document.createElement("figcaption");
      div.className = "plot";
      div.style.minHeight = `${HEIGHT}px`;
      div.setAttribute("role", "img");
      figure.append(div, caption);
      place.append(figure);
      divs.push(figure);
      watch.observe(div);
    }
    let any = false;
    divs.forEach((figure, number) => {
      const about = head.figures[number];
      figure.hidden = !about || !order.some((id) => known(id, number));
      if (figure.hidden) return;
      any = true;
      const others = order.length > 1 ? " Grey: the other trials." : "";
      figure.lastChild.textContent = best() ? `Blue: the best trial, ${best()}.${others}` : "";
      draw(figure.firstChild, about, number);
    });
    element("no-curves").hidden = any;
  }

  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries)
      if (target._fullLayout && target.clientWidth) Plotly.Plots.resize(target);
  });

  // -- drawing, at most once a second, and only where somebody looks -----------------------------
  let stale = { table: false, curves: false };
  let timer = 0;
  let drawnAt = -1000;
  function later(what) {
    stale = { table: stale.table || what.table, curves: stale.curves || what.curves };
    if (timer || document.hidden) return;
    timer = setTimeout(now, Math.max(0, drawnAt + 1000 - performance.now()));
  }
  function now() {
    timer = 0;
    if (document.hidden || !head) return;
    const { table, curves: curve } = stale;
    stale = { table: false, curves: false };
    if (table) showTable();
    if (curve) showCurves();
    drawnAt = performance.now();
  }
  document.addEventListener("visibilitychange", () => later({}));

  function take(message) {
    if (message.trials) Object.assign(rows, message.trials);
    if (message.order) {
      order = message.order;
      const there = new Set(order);
      for (const of of [rows, curves]) for (const id of Object.keys(of)) if (!there.has(id)) delete of[id];
    }
    for (const [id, more] of Object.entries(message.curves || {})) append(id, more);
    if (message.head) {
      head = message.head;
      showHead();
    }
    const columns = JSON.stringify(head.columns);
    const isOther = columns !== root.dataset.columns;
    root.dataset.columns = columns;
    const changed = message.trials || message.order;
    later({ table: Boolean(changed) || isOther, curves: Boolean(changed || message.curves) || isOther });
  }

  function connect() {
    const source = new EventSource("events");
    source.addEventListener("whole", (event) => {
      rows = nothing();
      curves = nothing();
      order = [];
      take(JSON.parse(event.data));
    });
    source.addEventListener("changes", (event) => take(JSON.parse(event.data)));
    source.addEventListener("open", () => (element("lost").hidden = true));
    source.addEventListener("error", () => {
      element("lost").hidden = false;
      // Browsers try again by themselves, but not after every error.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    });
  }
  connect();

  // -- theme and axis ---------------------------------------------------------------------------
  const button = element("theme");
  function label() {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${button.textContent.toLowerCase()} theme`);
  }
  function redraw() {
    label();
    later({ curves: true });
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", redraw);
  function choose(time) {
    byTime = time;
    element("by-steps").setAttribute("aria-pressed", String(!time));
    element("by-seconds").setAttribute("aria-pressed", String(time));
    later({ curves: true });
  }
  element("by-steps").addEventListener("click", () => choose(false));
  element("by-seconds").addEventListener("click", () => choose(true));
  element("trials").classList.add("short");
  label();
})();
