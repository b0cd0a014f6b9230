/* Images, their ballots, who voted, and the positives that were drawn. */
(() => {
  const { data, make, tile, choices, truth } = page;
  const list = document.getElementById("cards");
  if (!list) return;
  const exhibit = data.exhibit;
  const at_once = window.innerWidth < 720 ? 8 : 24;
  const controls = Object.fromEntries(
    ["class", "agreement", "right", "name"].map((name) => [name, document.getElementById(`by-${name}`)]),
  );
  const more = document.getElementById("more");
  const status = document.getElementById("shown");
  let shown = at_once;

  const agreements = {
    all: ["any", () => true],
    unanimous: ["all ballots", (share) => share === 1],
    high: ["three quarters or more", (share) => share >= 0.75],
    half: ["half or more", (share) => share >= 0.5],
    low: ["below half", (share) => share < 0.5],
    tied: ["tied", (_, tied) => tied === 1],
  };

  const voted = [...new Set(exhibit.gallery.map((card) => exhibit.vote[card.of]))].sort((a, b) => a - b);
  choices(controls.class, [["all", "all"], ...voted.map((each) => [String(each), each < 0 ? "none" : exhibit.classes[each]])]);
  choices(controls.agreement, Object.entries(agreements).map(([key, [words]]) => [key, words]));
  choices(controls.right, [["all", "any"], ["right", "right"], ["wrong", "wrong"], ["unknown", "not known"]]);

  function fits(card) {
    const n = card.of;
    const share = exhibit.ballots ? exhibit.votes[n] / exhibit.ballots : 0;
    const name = exhibit.names[exhibit.image[n]].toLowerCase();
    return (
      (controls.class.value === "all" || controls.class.value === String(exhibit.vote[n])) &&
      agreements[controls.agreement.value][1](share, exhibit.tied[n]) &&
      (controls.right.value === "all" || controls.right.value === truth(exhibit.right[n])) &&
      name.includes(controls.name.value.trim().toLowerCase())
    );
  }

  const title = (label) => (label < 0 ? "none" : exhibit.classes[label]);

  /* Ballots by class, the most frequent first; a neighbour that voted several times is shown once. */
  function byClass(card) {
    const groups = new Map();
    card.ballots.forEach((label, j) => {
      const group = groups.get(label) || { count: 0, voters: new Map() };
      group.count += 1;
      for (const [image, cosine] of card.voters[j]) {
        const voter = group.voters.get(image) || { times: 0, cosine: -1 };
        group.voters.set(image, { times: voter.times + 1, cosine: Math.max(voter.cosine, cosine) });
      }
      groups.set(label, group);
    });
    return [...groups].sort((one, other) => other[1].count - one[1].count || one[0] - other[0]);
  }

  function row(words, tiles) {
    const element = make("div", "row");
    element.append(make("span", "", words));
    const strip = make("div", "strip");
    strip.append(...tiles);
    element.append(strip);
    return element;
  }

  function voterTile([image, { times, cosine }]) {
    const element = make("span", "voter");
    const picture = tile(image, "small");
    const words = `${picture.title}, cosine ${cosine.toFixed(2)}, ${times === 1 ? "once" : `${times} times`}`;
    picture.title = words;
    picture.setAttribute("aria-label", words);
    element.append(picture);
    if (times > 1) element.append(make("b", "", `×${times}`));
    return element;
  }

  function cardOf(card) {
    const n = card.of;
    const image = exhibit.image[n];
    const element = make("li");
    element.tabIndex = -1;
    const head = make("div", "head");
    const words = make("div");
    words.append(make("div", "name", exhibit.names[image]));
    const tied = exhibit.tied[n] ? ", tied" : "";
    words.append(make("div", "voted", title(exhibit.vote[n])));
    words.append(make("div", "name", `${exhibit.votes[n]} of ${exhibit.ballots} ballots${tied}`));
    const known = truth(exhibit.right[n]);
    const marks = { right: "right-answer", wrong: "wrong-answer", unknown: "unknown" };
    words.append(make("span", `mark ${marks[known]}`, known === "unknown" ? "truth not known" : known));
    head.append(tile(image, "large"), words);
    element.append(head);
    for (const [label, group] of byClass(card)) {
      const ballots = group.count === 1 ? "1 ballot" : `${group.count} ballots`;
      element.append(row(`${ballots}: ${title(label)}`, [...group.voters].map(voterTile)));
    }
    const drawn = card.positives.length ? `positives drawn: ${card.positives.length}` : "no positives drawn";
    element.append(row(drawn, card.positives.map((each) => tile(each, "small"))));
    element.setAttribute("aria-label", `${exhibit.names[image]}: ${title(exhibit.vote[n])}, ${exhibit.votes[n]} of ${exhibit.ballots} ballots${tied}, ${known}`);
    return element;
  }

  function show() {
    const found = exhibit.gallery.filter(fits);
    const part = found.slice(0, shown);
    list.replaceChildren(...part.map(cardOf));
    if (list.firstChild) list.firstChild.tabIndex = 0;
    status.textContent = `${part.length} of ${found.length} ${found.length === 1 ? "image" : "images"} shown; ${exhibit.gallery.length} in the gallery`;
    more.hidden = found.length <= shown;
  }

  function columns() {
    const top = list.children[0].offsetTop;
    return [...list.children].filter((each) => each.offsetTop === top).length;
  }

  list.addEventListener("keydown", (event) => {
    const cards = [...list.children];
    const now = cards.indexOf(document.activeElement);
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns(), Home: -now, End: cards.length - 1 - now };
    if (now < 0 || !(event.key in moves)) return;
    event.preventDefault();
    const next = cards[Math.min(Math.max(now + moves[event.key], 0), cards.length - 1)];
    cards[now].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  document.getElementById("filters").addEventListener("input", () => {
    shown = at_once;
    show();
  });
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    const first = shown;
    shown += at_once;
    show();
    list.children[first].focus();
  });
  show();
})();
