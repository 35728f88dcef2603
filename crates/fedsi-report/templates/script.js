(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = new Map(data.clients.map((client) => [client.id, client]));
  const space = "http://www.w3.org/2000/svg";

  // Drawing into a plot: a panel is [left, right, top, bottom, x0, x1, y0, y1], pixels and what they stand for.
  const add = (group, kind, attributes) => {
    const node = group.appendChild(document.createElementNS(space, kind));
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const x = (panel, value) => panel[0] + (clamp(value, panel[4], panel[5]) - panel[4]) / (panel[5] - panel[4]) * (panel[1] - panel[0]);
  const y = (panel, value) => panel[3] - (clamp(value, panel[6], panel[7]) - panel[6]) / (panel[7] - panel[6]) * (panel[3] - panel[2]);
  const box = (group, panel, left, right, low, high, attributes) => add(group, "rect", {
    x: x(panel, left), width: Math.max(x(panel, right) - x(panel, left), 0),
    y: y(panel, high), height: Math.max(y(panel, low) - y(panel, high), 0), ...attributes,
  });
  const filled = (colour) => ({ fill: `var(--${colour})`, opacity: .75 });
  const line = (group, panel, points, marked) => {
    const path = points.map(([a, b], at) => `${at ? "L" : "M"}${x(panel, a)} ${y(panel, b)}`).join("");
    add(group, "path", { d: path, fill: "none", stroke: "var(--blue)", "stroke-width": 2 });
    if (marked) for (const [a, b] of points) add(group, "circle", { cx: x(panel, a), cy: y(panel, b), r: 3, fill: "var(--blue)" });
  };
  // Which curve is whose, in the upper left corner.
  const legend = (group, panel, client) => {
    [[`client ${client.n}`, 1], ["all clients", .28]].forEach(([name, opacity], at) => {
      const height = panel[2] + 14 + 19 * at;
      add(group, "line", { x1: panel[0] + 10, x2: panel[0] + 30, y1: height, y2: height, stroke: "var(--blue)", "stroke-width": 3, opacity });
      const text = add(group, "text", { x: panel[0] + 36, y: height + 5, "font-size": 13.5, fill: "currentColor" });
      text.textContent = name;
    });
  };
  const bars = (group, panel, counts, bins, colour, name) => {
    const tallest = Math.max(1, ...counts), width = (panel[5] - panel[4]) / bins;
    counts.forEach((count, at) => {
      const left = panel[4] + at * width;
      if (count) box(group, panel, left + .06 * width, left + .94 * width, 0, count / tallest, filled(colour));
    });
    const text = add(group, "text", { x: panel[1] - 6, y: panel[2] + 14, "font-size": 13.5, fill: "currentColor", "text-anchor": "end" });
    text.textContent = `${name}: ${counts.reduce((sum, count) => sum + count, 0)}`;
  };

  const draw = {
    reliability(group, [above, below], client) {
      if (!client.r) return;
      const total = client.r.reduce((sum, bin) => sum + bin[1], 0);
      for (const [place, count, right, sure] of client.r) {
        const left = place / 10 + .004, end = (place + 1) / 10 - .004, reached = right / 1000, claimed = sure / 1000;
        // Few predictions show chance.
        const weight = count < total / 100 ? .25 : 1;
        box(group, above, left, end, 0, reached, { ...filled("blue"), opacity: .75 * weight });
        box(group, above, left, end, Math.min(reached, claimed), Math.max(reached, claimed), {
          fill: claimed > reached ? "var(--vermilion)" : "none", "fill-opacity": .35, stroke: "var(--vermilion)", "stroke-width": 1.5, opacity: weight,
        });
        box(group, below, left, end, 0, count / total, filled("blue"));
      }
    },
    "risk-coverage"(group, [panel], client) {
      if (!client.k) return;
      line(group, panel, client.k.map((risk, at) => [(at + 1) / client.k.length, risk / 1000]), false);
      legend(group, panel, client);
    },
    entropy(group, panels, client) {
      const names = ["right", "wrong", "unseen classes"], colours = ["blue", "vermilion", "orange"];
      if (client.e) data.groups.forEach((at, place) => bars(group, panels[place], client.e[at], 20, colours[at], names[at]));
    },
    "interval-coverage"(group, [panel], client) {
      if (!client.v) return;
      line(group, panel, client.v.map((share, at) => [(at + 1) / (client.v.length + 1), share / 1000]), true);
      legend(group, panel, client);
    },
    residuals(group, [panel], client) {
      if (!client.z) return;
      const total = client.z.reduce((sum, count) => sum + count, 0) || 1;
      const width = (panel[5] - panel[4]) / client.z.length, density = width / Math.sqrt(2 * Math.PI);
      const tallest = Math.max(density, ...client.z.map((count) => count / total));
      bars(group, panel, client.z, client.z.length, "blue", "targets");
      group.querySelectorAll("rect").forEach((bar) => {
        const share = Math.max(...client.z) / total / tallest;
        bar.setAttribute("y", panel[3] - share * (panel[3] - bar.getAttribute("y")));
        bar.setAttribute("height", share * bar.getAttribute("height"));
      });
      const curve = Array.from({ length: 81 }, (_, at) => panel[4] + at / 80 * (panel[5] - panel[4]));
      const path = curve.map((z, at) => `${at ? "L" : "M"}${x(panel, z)} ${y(panel, density * Math.exp(-.5 * z * z) / tallest)}`);
      add(group, "path", { d: path.join(""), fill: "none", stroke: "currentColor", "stroke-width": 1.5 });
    },
    "error-by-deviation"(group, [panel], client) {
      if (!client.s) return;
      line(group, panel, client.s, true);
      legend(group, panel, client);
    },
    clients(group, [panel], client) {
      if (!client.d) return;
      const [cx, cy] = [x(panel, client.d[0]), y(panel, client.d[1])];
      add(group, "circle", { cx, cy, r: 7, fill: "var(--vermilion)", stroke: "var(--paper)", "stroke-width": 2 });
      const right = cx > (panel[0] + panel[1]) / 2;
      const text = add(group, "text", { x: cx + (right ? -12 : 12), y: cy + 5, "font-size": 14, fill: "currentColor", "text-anchor": right ? "end" : "start" });
      text.textContent = `client ${client.n}`;
    },
  };

  // Cards of one client's samples.
  const element = (kind, text, name) => {
    const node = document.createElement(kind);
    if (text !== undefined) node.textContent = text;
    if (name) node.className = name;
    return node;
  };
  const named = (number) => data.classes[number] ?? String(number);
  const card = (one) => {
    const item = element("li", undefined, "card");
    if (one.b) {
      const image = item.appendChild(element("img"));
      image.alt = `a test sample of class ${named(one.l)}`;
      image.src = `data:image/png;base64,${one.b}`;
    }
    const words = item.appendChild(element("p"));
    words.append(element("b", named(one.l)), element("span", `${one.d ?? (one.r === undefined ? `test sample ${one.i}` : `row ${one.r}`)}${one.s === undefined ? "" : `, strangeness ${(one.s / 10).toFixed(1)}`}`));
    const list = item.appendChild(element("ol"));
    for (const [place, share] of one.p) {
      const row = list.appendChild(element("li", undefined, place === one.l ? "true" : ""));
      const bar = element("i");
      bar.style.width = `${share / 10}%`;
      row.append(element("span", named(place)), bar, element("span", `${(share / 10).toFixed(1)}%`));
    }
    if (one.v && data.columns) {
      const cells = item.appendChild(element("dl", undefined, "cells"));
      one.v.forEach((cell, at) => {
        const pair = cells.appendChild(element("div"));
        pair.append(element("dt", data.columns[at]), element("dd", cell));
      });
    }
    return item;
  };
  const showCards = (client) => {
    const all = document.getElementById("cards-all"), own = document.getElementById("cards-client");
    if (!all) return;
    const gallery = client && data.galleries[client.id];
    all.hidden = Boolean(client && gallery);
    own.hidden = !all.hidden;
    own.replaceChildren();
    if (!gallery) return;
    for (const [title, cards, none] of [["Least certain", gallery.u, "No predictions."], ["Most confidently wrong", gallery.w, "No prediction was wrong."]]) {
      own.append(element("h3", `${title}, client ${client.n}`));
      const list = element("ul", undefined, "cards");
      list.append(...cards.map(card));
      own.append(cards.length ? list : element("p", none, "about"));
    }
  };

  // What is said of one client at the top: its own sentences and tiles.
  const showHeadline = (client) => {
    const all = document.getElementById("headline-all"), own = document.getElementById("headline-client");
    all.hidden = Boolean(client);
    own.hidden = !client;
    own.replaceChildren();
    if (!client) return;
    const lines = client.w ?? [`Client ${client.n}: ${client.t}.`];
    const verdicts = own.appendChild(element("div", undefined, "verdicts"));
    verdicts.append(...lines.map((line) => element("p", line, "verdict")));
    if (!client.f) return;
    const tiles = own.appendChild(element("dl", undefined, "tiles"));
    for (const [name, value, note] of client.f) {
      const tile = tiles.appendChild(element("div"));
      tile.append(element("dt", data.tiles[name]), element("dd", value), element("dd", note, "note"));
    }
  };

  // One client, or all of them.
  const chooser = document.getElementById("client"), rows = [...document.querySelectorAll("#clients tbody tr")];
  const show = (id) => {
    const client = id === "" ? undefined : byId.get(Number(id));
    chooser.value = client ? String(client.id) : "";
    document.getElementById("scores").textContent = client ? client.t : "";
    for (const svg of document.querySelectorAll("svg[data-panels]")) {
      const group = svg.querySelector(".chosen");
      group.replaceChildren();
      svg.classList.toggle("one", Boolean(client));
      if (client) draw[svg.dataset.plot](group, JSON.parse(svg.dataset.panels), client);
    }
    for (const row of rows) row.classList.toggle("one", Boolean(client) && row.dataset.client === String(client.id));
    showCards(client);
    showHeadline(client);
  };
  chooser.append(...data.clients.map((client) => new Option(`client ${client.n}`, client.id)));
  chooser.closest(".chooser").hidden = data.clients.length < 2;
  chooser.addEventListener("change", () => show(chooser.value));
  for (const button of document.querySelectorAll("button[data-client]")) {
    button.addEventListener("click", () => { show(button.dataset.client); window.scrollTo({ top: 0 }); });
  }
  for (const row of rows) {
    row.tabIndex = 0;
    const choose = () => show(row.classList.contains("one") ? "" : row.dataset.client);
    row.addEventListener("click", choose);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
  }

  // The table: sorted by any column, folded where it is long.
  const table = document.getElementById("clients"), unfold = document.getElementById("unfold");
  sortable(table);
  if (rows.length > 50) {
    table.classList.add("folded");
    unfold.hidden = false;
    unfold.addEventListener("click", () => { table.classList.remove("folded"); unfold.hidden = true; });
  }
})();
