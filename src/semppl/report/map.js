/* Images as points: their picture beside the pointer, or the arrow keys. */
(() => {
  const { data, palette, make, tile, choices, truth, draw, gradually } = page;
  const plot = document.getElementById("map-plot");
  if (!plot) {
    gradually();
    return;
  }
  const exhibit = data.exhibit;
  const card = document.getElementById("map-card");
  const legend = document.getElementById("map-legend");
  const [kind, colour, only] = ["kind", "colour", "class"].map((name) => document.getElementById(`map-${name}`));
  const grey = "#8a8f98";
  const colours = [...palette.slice(0, 7), "#3bb4c9", "#7a9a2e", "#a0683c", "#d9538f", "#55606e"];
  let current = null;

  const classColour = (label) => {
    if (label < 0) return grey;
    return exhibit.classes.length <= colours.length ? colours[label] : `hsl(${(label * 137.5) % 360}, ${label % 2 ? 70 : 50}%, ${label % 3 ? 50 : 60}%)`;
  };
  const className = (label) => (label < 0 ? "none" : exhibit.classes[label]);
  const label = (n) => exhibit.labels[exhibit.image[n]];
  const shares = ["#c8553d", "#d98a3d", "#c9b13c", "#5ea868", "#2f7fb5"];
  const step = (n) => (exhibit.ballots && exhibit.votes[n] >= 0 ? Math.min(Math.floor((5 * exhibit.votes[n]) / exhibit.ballots), 4) : -1);
  const ways = {
    vote: { of: (n) => exhibit.vote[n], colour: classColour, words: className },
    label: { of: label, colour: classColour, words: className },
    right: {
      of: (n) => truth(exhibit.right[n]),
      colour: (key) => ({ right: "#2f9e77", wrong: "#d1453b", unknown: grey })[key],
      words: (key) => (key === "unknown" ? "not known" : key),
    },
    votes: {
      of: step,
      colour: (key) => (key < 0 ? grey : shares[key]),
      words: (key) => (key < 0 ? "no vote" : key === 4 ? "80 to 100 % of the ballots" : `${20 * key} to ${20 * key + 20} %`),
    },
  };

  choices(kind, Object.keys(exhibit.maps).map((name) => [name, name]));
  kind.value = "UMAP" in exhibit.maps ? "UMAP" : "PCA";
  choices(only, [["all", "all"], ...exhibit.classes.map((name, i) => [String(i), name])]);
  if (exhibit.vote.every((vote) => vote < 0)) colour.value = "label";

  const all = exhibit.image.map((_, n) => n);
  const within = (n) => only.value === "all" || [exhibit.vote[n], label(n)].includes(Number(only.value));

  function figure() {
    const [x, y] = exhibit.maps[kind.value];
    const way = ways[colour.value];
    const ring = current === null ? [[], []] : [[x[current]], [y[current]]];
    return {
      data: [
        {
          type: "scatter", mode: "markers", x, y, hoverinfo: "none",
          marker: { size: 7, color: all.map((n) => way.colour(way.of(n))), opacity: all.map((n) => (within(n) ? 0.85 : 0.07)), line: { width: 0 } },
        },
        { type: "scatter", mode: "markers", x: ring[0], y: ring[1], hoverinfo: "skip", marker: { size: 18, symbol: "circle-open", color: page.theme().ink, line: { width: 3 } } },
      ],
      layout: {
        height: 520, showlegend: false, hovermode: "closest", hoverdistance: 12,
        margin: { l: 16, r: 16, t: 16, b: 16 },
        xaxis: { visible: false }, yaxis: { visible: false },
      },
    };
  }

  function explain() {
    const way = ways[colour.value];
    const counts = new Map();
    all.filter(within).forEach((n) => counts.set(way.of(n), (counts.get(way.of(n)) || 0) + 1));
    const keys = [...counts.keys()].sort((one, other) => (typeof one === "number" ? one - other : String(one).localeCompare(other)));
    const entries = keys.slice(0, 40).map((key) => {
      const item = make("li");
      const dot = make("i");
      dot.style.backgroundColor = way.colour(key);
      item.append(dot, document.createTextNode(`${way.words(key)} (${counts.get(key)})`));
      return item;
    });
    if (keys.length > 40) entries.push(make("li", "", `and ${keys.length - 40} more`));
    legend.replaceChildren(...entries);
  }

  function tell(n) {
    const image = exhibit.image[n];
    const words = make("div", "words");
    words.append(make("p", "name", exhibit.names[image]));
    words.append(make("p", "voted", label(n) >= 0 ? className(label(n)) : className(exhibit.vote[n])));
    words.append(make("p", "", label(n) >= 0 ? `given label (${exhibit.roles[image]})` : "pseudo-label"));
    if (exhibit.vote[n] >= 0) {
      const tied = exhibit.tied[n] ? ", tied" : "";
      words.append(make("p", "", `${exhibit.votes[n]} of ${exhibit.ballots} ballots for ${className(exhibit.vote[n])}${tied}`));
    }
    if (exhibit.right[n] !== null) words.append(make("p", "", `the vote is ${truth(exhibit.right[n])}`));
    card.replaceChildren(tile(image, ""), words);
  }

  function go(n) {
    current = n;
    tell(n);
    const [x, y] = exhibit.maps[kind.value];
    window.Plotly.restyle(plot, { x: [[x[n]]], y: [[y[n]]] }, [1]);
  }

  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1], Home: [0, 0], End: [0, 0] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [axis, by] = moves[event.key];
    const values = exhibit.maps[kind.value][axis];
    const order = all.filter(within).sort((one, other) => values[one] - values[other] || one - other);
    if (!order.length) return;
    const place = order.indexOf(current);
    let next = place < 0 ? 0 : place + by;
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = order.length - 1;
    go(order[Math.min(Math.max(next, 0), order.length - 1)]);
  });

  function show() {
    if (current !== null && !within(current)) current = null;
    draw(plot, figure);
    explain();
  }

  const form = document.getElementById("map-choices");
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
  const pointed = (event) => {
    const point = event.points.find((each) => each.curveNumber === 0);
    if (point) tell(point.pointIndex);
  };
  plot.on("plotly_hover", pointed);
  plot.on("plotly_click", pointed);
  gradually();
})();
