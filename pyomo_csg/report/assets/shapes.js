// Pictures by the shape of the data: profiles, heat maps, and a table of all numbers.

/** Draw lines over an ordered index: [{values, style, tip}], with bands [{low, high}] below. */
function drawProfile(place, label, columns, lines, bands, range) {
  return draw(place, label, 210, (canvas, width, height) => {
    const last = Math.max(1, columns.length - 1);
    const [X, Y] = axes(canvas, width, height, [0, last], range, "", "", columns);
    for (const { low, high, style } of bands) {
      const there = low.map((y, i) => `${X(i).toFixed(1)},${Y(y).toFixed(1)}`);
      const back = high.map((y, i) => `${X(i).toFixed(1)},${Y(y).toFixed(1)}`).reverse();
      canvas.append(svg("polygon", { class: style, points: [...there, ...back].join(" ") }));
    }
    for (const { values, style, tip } of lines) {
      canvas.append(svg("path", { class: style, d: path(columns.map((_, i) => i), values, X, Y) }, svg("title", {}, tip)));
    }
  });
}

/** Return quantiles of each column of rows. */
function quantiles(rows, members, share) {
  return members.map((j) => {
    const sorted = rows.map((row) => row[j]).sort((a, b) => a - b);
    return sorted[Math.round(share * (sorted.length - 1))];
  });
}

/** The scenarios of an ordered group over the fan of outcomes near this context. */
function scenarioProfile(place, content, group, context) {
  const { members, columns } = group;
  const all = members.flatMap((j) => content.ranges[j]);
  const range = roomy([Math.min(...all), Math.max(...all)]);
  const lines = context.scenarios.map((scenario, k) => ({
    values: members.map((j) => scenario[j]), style: "curve ours scenario-line",
    tip: `Scenario ${k + 1}, weight ${shown(context.weights[k])}`,
  }));
  const bands = !context.near ? [] : [[0, 1], [0.1, 0.9]].map(([low, high], i) => ({
    low: quantiles(context.near, members, low), high: quantiles(context.near, members, high), style: `fan fan-${i}`,
  }));
  return drawProfile(place, `Scenarios of ${group.name}`, columns, lines, bands, range);
}

/** A decision over an ordered index: this context's line over those of the others. */
function decisionProfile(place, content, group, context) {
  const values = (one) => group.members.map((v) => one.decision[v]);
  const known = content.contexts.filter((one) => one.value !== null);
  const range = roomy(known.flatMap(values));
  const lines = known.filter((one) => one !== context).map((one) => ({ values: values(one), style: "curve other", tip: one.name }));
  lines.push({ values: values(context), style: "curve ours", tip: context.name });
  return drawProfile(place, `Decision ${group.name}`, group.columns, lines, [], range);
}

/** A heat map of a group with two indices; rows and columns have labels. */
function heatMap(group, value, range, differs) {
  const [low, high] = range;
  const cells = group.rows.map((row, i) => html("tr", {},
    html("th", { scope: "row" }, row),
    ...group.columns.map((column, j) => {
      const member = group.members[i * group.columns.length + j];
      const x = value(member);
      const share = x === null ? 0 : high > low ? (x - low) / (high - low) : 0;
      const tip = `${group.name}[${row}, ${column}]: ${shown(x)}`;
      return html("td", { style: `--share: ${share.toFixed(3)}`, title: tip, "aria-label": tip, ...(differs(member) ? { class: "differs" } : {}) });
    })));
  const every = Math.ceil(group.columns.length / 12);
  const heads = group.columns.map((column, j) => html("th", { scope: "col" }, j % every ? "" : column));
  return html("table", { class: "heat" },
    html("thead", {}, html("tr", {}, html("th", {}, ""), ...heads)),
    html("tbody", {}, ...cells));
}

/** Switches over an ordered index: one row for this context, and one for each other. */
function contextMap(content, group, context) {
  const known = content.contexts.filter((one) => one.value !== null);
  const ordered = [context, ...known.filter((one) => one !== context)];
  const rows = ordered.map((one, i) => (i ? `context ${content.contexts.indexOf(one) + 1}` : "here"));
  const size = group.columns.length;
  const members = rows.flatMap((_, i) => group.columns.map((_, j) => i * size + j));
  const value = (m) => ordered[Math.floor(m / size)].decision[group.members[m % size]];
  return heatMap({ name: group.name, rows, columns: group.columns, members }, value, [0, 1], (m) => value(m) !== value(m % size));
}

/** Return whether a variable differs between the contexts that are shown. */
function differsBetween(content, v) {
  const known = content.contexts.map((one) => one.decision[v]).filter((x) => x !== null);
  return known.some((x) => x !== known[0]);
}

/** A table of all numbers of a decision that can be searched, sorted and saved. */
function allNumbers(content, context) {
  const rows = content.variables.map((name, v) => {
    const all = content.contexts.map((one) => one.decision[v]).filter((x) => x !== null);
    return { name, value: context.decision[v], low: Math.min(...all), high: Math.max(...all) };
  });
  const heads = [["name", "variable"], ["value", "here"], ["low", "least"], ["high", "most over the contexts"]];
  let [key, sign] = ["", 1];
  const body = html("tbody", {});
  const search = html("input", { type: "search", placeholder: "search variables", "aria-label": "Search variables" });
  const count = html("span", { class: "kicker" });
  const paint = () => {
    const wanted = search.value.toLowerCase();
    const found = rows.filter((row) => row.name.toLowerCase().includes(wanted));
    const order = (row) => (key ? row[key] : row.low - row.high);  // what differs the most comes first
    found.sort((a, b) => sign * (order(a) > order(b) ? 1 : order(a) < order(b) ? -1 : 0));
    count.textContent = `${found.length} of ${rows.length}`;
    body.replaceChildren(...found.map((row) => html("tr", {}, ...heads.map(([k]) => html("td", {}, k === "name" ? row.name : shown(row[k]))))));
  };
  const head = heads.map(([k, word]) => {
    const button = html("button", { type: "button", class: "sort" }, word);
    button.addEventListener("click", () => { [key, sign] = [k, key === k ? -sign : 1]; paint(); });
    return html("th", { scope: "col" }, button);
  });
  search.addEventListener("input", paint);
  paint();
  return html("div", {},
    html("p", { class: "picker" }, search, count),
    html("div", { class: "scroll tall" }, html("table", {}, html("thead", {}, html("tr", {}, ...head)), body)));
}

/** Return what the page shows of decisions as CSV: a row per variable, a column per context. */
function decisionsAsCsv(content) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const head = ["variable", ...content.contexts.map((one) => one.name)].map(quoted).join(",");
  const rows = content.variables.map((name, v) => [quoted(name), ...content.contexts.map((one) => one.decision[v] ?? "")].join(","));
  return [head, ...rows, ""].join("\n");
}

/** Offer a text to save under a name. */
function save(name, text) {
  const link = html("a", { download: name });
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.href = url;
  link.click();
  URL.revokeObjectURL(url);
}
