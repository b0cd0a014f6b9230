"use strict";
/* Shared by all parts of the page. Text from the data enters the page as textContent alone. */
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const themes = {
    light: { ink: "#1c232d", soft: "#5a6472", line: "#dfe3e8", card: "#ffffff", heat: [[0, "#f4f6f8"], [0.5, "#6fa3d4"], [1, "#123f70"]] },
    dark: { ink: "#e4e8ed", soft: "#9aa5b3", line: "#323943", card: "#1b1f25", heat: [[0, "#20252c"], [0.5, "#3f77ad"], [1, "#cfe5fb"]] },
  };
  const palette = ["#3b82c4", "#e0703a", "#2f9e77", "#b05fc0", "#c79a1e", "#d1507f", "#6b7fd7", "#8a8f98"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const print = window.matchMedia("print");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const drawn = new Map();
  let printing = false;

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function theme() {
    if (printing) return themes.light;
    const chosen = document.documentElement.dataset.theme;
    return themes[chosen || (dark.matches ? "dark" : "light")];
  }

  function axis(given, colours) {
    return {
      gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.soft, zeroline: false,
      tickfont: { color: colours.soft, size: 11 }, automargin: true, fixedrange: touch, exponentformat: "e", ...given,
      title: { standoff: 8, font: { size: 12, color: colours.soft }, ...(given && given.title) },
    };
  }

  function styled(layout) {
    const colours = theme();
    return {
      margin: { l: 48, r: 14, t: 8, b: 40 }, autosize: true, dragmode: touch ? false : "zoom", ...layout,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colours.ink },
      xaxis: axis(layout.xaxis, colours), yaxis: axis(layout.yaxis, colours),
      legend: { orientation: "h", x: 0, y: -0.22, yanchor: "top", font: { size: 11 } },
      hoverlabel: { bgcolor: colours.card, bordercolor: colours.line, font: { color: colours.ink } },
    };
  }

  function traces(list) {
    return list.map((trace) => (trace.type === "heatmap" ? { ...trace, colorscale: theme().heat } : trace));
  }

  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };

  /* `figure()` gives {data, layout}; it is asked again whenever the theme or the paper changes. */
  function draw(element, figure) {
    drawn.set(element, figure);
    const { data: list, layout } = figure();
    const full = styled(layout);
    if (layout.yaxis && layout.yaxis.scaleanchor) full.height = Math.min(full.height, 0.9 * element.clientWidth + 90);
    element.style.height = `${full.height}px`;
    if (printing) {
      full.width = element.clientWidth || 660;
      full.autosize = false;
    }
    return window.Plotly.react(element, traces(list), full, config);
  }

  function redraw() {
    for (const [element, figure] of drawn) draw(element, figure);
  }

  /* Charts of a part that is closed have no width: they are drawn when it opens. */
  function visible(element) {
    return printing || element.clientWidth > 0;
  }

  function chart(element) {
    const id = element.dataset.chart;
    if (drawn.has(element) || !visible(element) || !data.charts[id]) return;
    const { data: list, layout, readout } = data.charts[id];
    draw(element, () => ({ data: list, layout }));
    if (readout.kind === "confusion") {
      const said = document.querySelector(`[data-readout="${id}"]`);
      const tell = (event) => {
        const { x, y } = event.points[0];
        const count = readout.counts[y][x];
        const all = readout.counts[y].reduce((sum, each) => sum + each, 0);
        said.textContent = `${readout.classes[y]} → ${readout.classes[x]}: ${count} of ${all} shown images`;
      };
      element.on("plotly_hover", tell);
      element.on("plotly_click", tell);
    }
  }

  function charts() {
    for (const element of document.querySelectorAll("[data-chart]")) chart(element);
  }

  /* One after the other, so that the page can be read meanwhile. */
  function gradually() {
    const waiting = [...document.querySelectorAll("[data-chart]")];
    const next = () => {
      const element = waiting.shift();
      if (!element) {
        document.documentElement.dataset.ready = "yes";
        return;
      }
      chart(element);
      setTimeout(next, 0);
    };
    next();
  }

  function paper(on) {
    if (printing === on) return;
    printing = on;
    charts();
    redraw();
  }

  function themeButton() {
    const button = document.getElementById("theme");
    const now = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
    const show = () => {
      button.textContent = now() === "dark" ? "Light" : "Dark";
      button.setAttribute("aria-pressed", String(now() === "dark"));
      button.setAttribute("aria-label", now() === "dark" ? "Show the page light" : "Show the page dark");
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = now() === "dark" ? "light" : "dark";
      show();
      redraw();
    });
    dark.addEventListener("change", () => {
      show();
      redraw();
    });
    show();
  }

  function value(row, column) {
    const cell = row.children[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text === "" || Number.isNaN(number) ? text : number;
  }

  function order(one, other) {
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), undefined, { numeric: true });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((one, other) => order(value(one, column), value(other, column)));
        body.append(...(down ? rows.reverse() : rows));
      });
    });
  }

  /* A thumbnail with its words; −1 is an entry of the queue that is no image. */
  function tile(image, kind) {
    const exhibit = data.exhibit;
    const element = make("span", `tile ${kind}`);
    element.setAttribute("role", "img");
    const place = image < 0 ? null : exhibit.tiles[image];
    let words = "an entry of the queue that is no image";
    if (image >= 0) {
      words = exhibit.names[image];
      if (exhibit.labels[image] >= 0) words += `, labelled ${exhibit.classes[exhibit.labels[image]]}`;
    }
    if (place === null) {
      element.classList.add("none");
      words += ", no thumbnail";
    } else {
      element.classList.add(`s${place[0]}`);
      element.style.backgroundPosition = `${place[1]}% ${place[2]}%`;
    }
    element.setAttribute("aria-label", words);
    element.title = words;
    return element;
  }

  function choices(select, entries) {
    for (const [key, words] of entries) {
      const option = make("option", "", words);
      option.value = key;
      select.append(option);
    }
  }

  function truth(right) {
    return right === null ? "unknown" : right ? "right" : "wrong";
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll("details").forEach((each) => each.addEventListener("toggle", charts));
  window.addEventListener("beforeprint", () => paper(true));
  window.addEventListener("afterprint", () => paper(false));
  print.addEventListener("change", (event) => paper(event.matches));
  themeButton();
  return { data, palette, make, tile, choices, truth, draw, gradually, theme };
})();
