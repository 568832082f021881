// The charts of the page, one function each.

/** Scenarios of a context and nearby outcomes: one row per uncertain number. */
function drawScenarios(place, content, context) {
  const stops = content.numberGroups.map((group) => {
    const part = html("div", { class: "chart" });
    const isProfile = group.shape === "profile";
    place.append(...(isProfile || group.shape === "map" ? [html("h3", {}, group.name)] : []), part);
    if (isProfile) return scenarioProfile(part, content, group, context);
    if (group.shape === "map") return scenarioMap(part, content, group, context);
    const rows = { ...content, numbers: group.members.map((j) => content.numbers[j]), ranges: group.members.map((j) => content.ranges[j]) };
    const take = (all) => all && all.map((row) => group.members.map((j) => row[j]));
    return drawScenarioRows(part, rows, { ...context, scenarios: take(context.scenarios), near: take(context.near) });
  });
  return () => stops.forEach((stop) => stop());
}

/** The mean scenario of a group with two indices. */
function scenarioMap(place, content, group, context) {
  const mean = (j) => context.scenarios.reduce((sum, scenario, k) => sum + context.weights[k] * scenario[j], 0);
  const all = group.members.flatMap((j) => content.ranges[j]);
  place.replaceChildren(html("div", { class: "scroll" }, heatMap(group, mean, [Math.min(...all), Math.max(...all)], () => false)));
  return () => {};
}

/** Scenarios of a few numbers: one row per number. */
function drawScenarioRows(place, content, context) {
  const single = content.numbers.length === 1;
  const step = single ? 150 : 84;
  const label = `${context.scenarios.length} scenarios for ${context.name}`;
  return draw(place, label, content.numbers.length * step, (canvas, width) => {
    const rows = content.numbers.map((name, j) => scenarioRow(canvas, content, context, j, width, j * step, step));
    const shifts = single ? apart(context.scenarios.map(([x]) => rows[0].X(x))) : context.scenarios.map(() => 0);
    context.scenarios.forEach((scenario, k) => {
      const points = scenario.map((x, j) => [rows[j].X(x), rows[j].y]);
      if (!single) canvas.append(svg("path", { class: "thread", d: "M" + points.map((p) => p.join(",")).join("L") }));
      points.forEach(([x, y], j) => canvas.append(scenarioMark(content, context, k, j, x, y + shifts[k])));
    });
  });
}

function scenarioRow(canvas, content, context, j, width, top, height) {
  const range = roomy(content.ranges[j]);
  const X = scale(range, [14, width - 14]);
  const floor = top + height - 26;
  const middle = (top + 20 + floor) / 2;
  canvas.append(svg("text", { class: "label", x: 0, y: top + 12 }, content.numbers[j]));
  xAxis(canvas, X, range, floor, width);
  const band = (floor - top - 26) / 2;
  (context.near || []).forEach((outcome, i) => {
    const shift = (((i * 0.618034) % 1) - 0.5) * 2 * band;  // spreads points evenly
    canvas.append(dot({ class: "near", cx: X(outcome[j]), cy: middle + shift, r: 4 }, `${content.numbers[j]}: ${shown(outcome[j])}`));
  });
  return { X, y: middle };
}

/** Return vertical shifts that separate overlapping marks. */
function apart(places) {
  const order = places.map((x, k) => [x, k]).sort((a, b) => a[0] - b[0]);
  const shifts = places.map(() => 0);
  let [before, crowd] = [-Infinity, 0];
  for (const [x, k] of order) {
    crowd = x - before < 18 ? crowd + 1 : 0;
    shifts[k] = (crowd % 2 ? -1 : 1) * 19 * Math.ceil((crowd % 5) / 2);
    if (!crowd) before = x;
  }
  return shifts;
}

function scenarioMark(content, context, k, j, x, y) {
  const radius = Math.max(7, Math.min(15, 9 * Math.sqrt(context.weights[k] * context.weights.length)));
  const tip = `Scenario ${k + 1}, weight ${shown(context.weights[k])}: ${content.numbers[j]} ${shown(context.scenarios[k][j])}`;
  return svg("g", {},
    dot({ class: "scenario", cx: x, cy: y, r: radius }, tip),
    svg("text", { class: "mark", x, y: y + 3.5 }, String(k + 1)),
  );
}

/** The decision as a table, with the range of each variable over the contexts shown. */
function decisionTable(content, context) {
  if (context.value === null) return html("p", {}, "No decision: the program on these scenarios has no solution.");
  const parts = content.variableGroups.filter((group) => group.shape !== "list").map((group) => {
    const place = html("div", { class: "chart" });
    if (group.shape === "profile" && group.members.every((v) => content.binary[v])) place.append(html("div", { class: "scroll" }, contextMap(content, group, context)));
    else if (group.shape === "profile") later(() => decisionProfile(place, content, group, context));
    else {
      const all = content.contexts.filter((one) => one.value !== null).flatMap((one) => group.members.map((v) => one.decision[v]));
      const range = group.members.every((v) => content.binary[v]) ? [0, 1] : [Math.min(...all), Math.max(...all)];
      place.append(html("div", { class: "scroll" }, heatMap(group, (v) => context.decision[v], range, (v) => differsBetween(content, v))));
    }
    const same = group.differs ? "" : " (the same in all contexts shown)";
    const key = group.differs && place.querySelector(".differs") ? [html("p", { class: "kicker" }, "An orange edge: differs between the contexts shown.")] : [];
    return html("div", {}, html("h4", {}, group.name + same), place, ...key);
  });
  const listed = content.variableGroups.filter((group) => group.shape === "list").flatMap((group) => group.members).slice(0, MOST_LISTED);
  const rows = listed.map((v) => {
    const all = content.contexts.map((one) => one.decision[v]).filter((x) => x !== null);
    return html("tr", {},
      html("td", {}, content.variables[v]), html("td", {}, rangeMark(all, context.decision[v], content.binary[v])), html("td", {}, shown(context.decision[v])));
  });
  return html("div", {}, ...(rows.length ? [html("table", { class: "list" }, html("tbody", {}, ...rows))] : []), ...parts);
}

const MOST_LISTED = 20;  // beside the picture; the table of all numbers has the rest
/** Run once the elements that are being made are on the page. */
const later = (run) => queueMicrotask(run);

/** Show where a value is in its range over the contexts; a binary one between 0 and 1. */
function rangeMark(all, value, binary) {
  const [low, high] = binary ? [0, 1] : [Math.min(...all), Math.max(...all)];
  if (low === high) return "same in all";
  const tip = `from ${shown(low)} to ${shown(high)} over the contexts shown`;
  const X = scale([low, high], [8, 112]);
  return svg("svg", { viewBox: "0 0 120 16", height: 16, role: "img", "aria-label": tip },
    svg("line", { class: "track", x1: 8, x2: 112, y1: 8, y2: 8 }),
    dot({ class: "dot", cx: X(value), cy: 8, r: 5 }, tip));
}

/** Losses of candidates, with standard errors of the difference from the chosen one. */
function drawCandidates(place, rows, chosen) {
  const range = roomy(rows.flatMap((row) => [row.loss - (row.standard_error || 0), row.loss + (row.standard_error || 0)]), 0.08);
  draw(place, "Mean losses of the candidates", rows.length * 44 + 24, (canvas, width, height) => {
    const X = scale(range, [10, width - 10]);
    xAxis(canvas, X, range, height - 22, width);
    rows.forEach((row, i) => {
      const y = i * 44 + 28;
      const error = row.standard_error || 0;
      canvas.append(
        svg("text", { class: row.name === chosen ? "label" : "", x: 0, y: y - 12 }, row.name === chosen ? `${row.name} (chosen)` : row.name),
        svg("line", { class: "grid", x1: 10, x2: width - 10, y1: y, y2: y }),
        svg("line", { class: "bar", x1: X(row.loss - error), x2: X(row.loss + error), y1: y, y2: y }),
        dot({ class: row.name === chosen ? "dot" : "dot lost", cx: X(row.loss), cy: y, r: 6 }, `${row.name}: ${shown(row.loss)} ± ${shown(error)}`),
      );
    });
  });
}

/** Losses by the number of scenarios. */
function drawTried(place, rows) {
  const range = roomy(rows.flatMap((row) => [row.loss - row.standard_error, row.loss + row.standard_error]));
  draw(place, "Held-out loss by the number of scenarios", 240, (canvas, width, height) => {
    const [X, Y] = axes(canvas, width, height, roomy(rows.map((row) => row.K)), range, "K", "loss");
    for (const row of rows) {
      canvas.append(
        svg("line", { class: "bar", x1: X(row.K), x2: X(row.K), y1: Y(row.loss - row.standard_error), y2: Y(row.loss + row.standard_error) }),
        dot({ class: "dot", cx: X(row.K), cy: Y(row.loss), r: 5 }, `K = ${row.K}: ${shown(row.loss)} ± ${shown(row.standard_error)}`),
      );
    }
  });
}

/** Training losses of one stage, one line per run. */
function drawTraining(place, stage) {
  const steps = stage.runs.flatMap((run) => run.step);
  const losses = stage.runs.flatMap((run) => [...run.loss, ...(run.held_out || [])]);
  draw(place, `Losses of ${stage.stage}`, 170, (canvas, width, height) => {
    const [X, Y] = axes(canvas, width, height, [Math.min(...steps), Math.max(...steps)], roomy(losses), "step", "");
    for (const run of stage.runs) {
      canvas.append(svg("path", { class: "curve ours", d: path(run.step, run.loss, X, Y) }));
      if (run.held_out) canvas.append(svg("path", { class: "curve held mean", d: path(run.step, run.held_out, X, Y) }));
      const last = run.step.length - 1;
      canvas.append(dot({ class: "dot", cx: X(run.step[last]), cy: Y(run.loss[last]), r: 3.5 }, `${stage.stage} ended at ${shown(run.loss[last])}`));
    }
  });
}

/** Cumulative distribution of costs. */
function drawCosts(place, costs, styles) {
  const range = roomy(Object.values(costs.curves).flat(), 0.02);
  draw(place, "Distribution of costs on the pairs", (width) => Math.min(360, 180 + width / 4), (canvas, width, height) => {
    const [X, Y] = axes(canvas, width, height, range, [0, 1], costs.word, "share of rows");
    Object.entries(costs.curves).forEach(([name, curve], i) => {
      canvas.append(svg("path", { class: `curve ${styles[i]}`, d: path(curve, costs.shares, X, Y) }, svg("title", {}, name)));
    });
  });
}

/** Losses predicted by the Loss-Net against losses computed by the solver. */
function drawLossNet(place, { predicted, true: truth }) {
  const range = roomy([...predicted, ...truth]);
  draw(place, "Predicted against true losses", (width) => Math.min(width, 420), (canvas, width, height) => {
    const [X, Y] = axes(canvas, Math.min(width, 480), height, range, range, "true loss", "predicted loss");
    canvas.append(svg("line", { class: "bar", x1: X(range[0]), x2: X(range[1]), y1: Y(range[0]), y2: Y(range[1]) }));
    truth.forEach((x, i) => canvas.append(dot({ class: "dot", cx: X(x), cy: Y(predicted[i]), r: 3.5, opacity: 0.6 }, `true ${shown(x)}, predicted ${shown(predicted[i])}`)));
  });
}
