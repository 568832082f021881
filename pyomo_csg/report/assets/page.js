// Fills the sections, and handles the choice of a context.

const content = JSON.parse(byId("content").textContent);
const STYLES = ["ours", "mean", "free"];
let forget = () => {};

function head() {
  byId("lead").textContent = content.lead;
  const cards = [[String(content.contexts[0].scenarios.length), "scenarios for a context"]];
  if (content.selection.chosen) cards.push([content.selection.chosen, "chosen"]);
  cards.push([`${shown(middle(content.milliseconds))} ms`, "for a decision"]);
  byId("verdict").replaceChildren(...content.verdict.map((sentence) => html("p", {}, withSigns(sentence))));
  byId("verdict").classList.toggle("doubt", !content.beats);
  byId("cards").replaceChildren(...cards.map(([big, small]) => html("li", {}, html("b", {}, big), html("span", {}, small))));
  byId("absent").replaceChildren(...content.absent.map((note) => html("p", { class: "note" }, note)));
}

const withSigns = (text) => text.replaceAll("+-", "±");
const middle = (sorted) => sorted[Math.floor(sorted.length / 2)];

function show(index) {
  const context = content.contexts[index];
  byId("context").value = String(index);
  byId("picked").textContent = context.name;  // which a narrow picker cuts off
  forget();  // of the charts before
  byId("scenarios").replaceChildren();
  forget = drawScenarios(byId("scenarios"), content, context);
  byId("decision").replaceChildren(decisionTable(content, context), html("p", {}, decisionWords(context)));
  const cells = context.scenarios.map((scenario, k) => [String(k + 1), shown(context.weights[k]), ...scenario.map((x) => shown(x))]);
  byId("all-numbers").replaceChildren(allNumbers(content, context));
  byId("scenario-table").replaceChildren(table([["scenario", "weight", ...content.numbers], ...cells]));
}

function decisionWords(context) {
  const more = content.allVariables - content.variables.length;
  const rest = more > 0 ? ` The page has the ${content.variables.length} of ${content.allVariables} variables that differ the most between contexts; policy.decide returns all.` : "";
  return context.value === null ? "" : `The objective, which is to ${content.sense}, is ${shown(context.value)} on average over these scenarios.${rest}`;
}

function picker() {
  const select = byId("context");
  const last = content.contexts.length - 1;
  const go = (step) => show(Math.min(last, Math.max(0, Number(select.value) + step)));
  select.replaceChildren(...content.contexts.map((one, i) => html("option", { value: i }, one.name)));
  select.addEventListener("change", () => go(0));
  byId("previous").addEventListener("click", () => go(-1));
  byId("next").addEventListener("click", () => go(1));
  const near = content.contexts[0].near;
  const profiles = content.numberGroups.some((group) => group.shape === "profile");
  byId("scenarios-caption").textContent =
    (profiles ? "Blue lines: scenarios." : "Blue: scenarios, numbered; a larger mark has a larger weight.") +
    (near ? ` Gray: outcomes after the ${near.length} nearest contexts${profiles ? ", all of them and the middle 80 %" : ""}.` : "");
  byId("save").addEventListener("click", () => save("decisions.csv", decisionsAsCsv(content)));
  show(0);
}

function costs() {
  const found = content.costs;
  if (!found) return void (byId("costs").hidden = true);
  byId("costs-title").textContent = found.word === "profit" ? "Profits of decisions" : "Costs of decisions";
  byId("costs-words").textContent =
    `On the ${found.pairs} rows that were given.`;
  drawCosts(byId("cdf"), found, STYLES);
  byId("cdf").after(html("p", { class: "legend" }, ...found.table.map((row, i) => html("span", { class: `key ${STYLES[i]}` }, row.name))));
  const failed = found.table.some((row) => row.unsolved);
  const risky = found.table.some((row) => "cvar" in row);
  const rows = found.table.map((row, i) => [
    row.name, withSigns(row.own),
    i ? withSigns(row.apart) : "",
    i ? `${Math.round(100 * row.first_better)} %` : "", ...(risky ? [row.cvar] : []), ...(failed ? [String(row.unsolved)] : []),
  ]);
  const heads = ["decision", `mean ${found.word} ± standard error`, "more than this policy", "this policy is better", ...(risky ? [`CVaR ${found.level} %`] : []), ...(failed ? ["unsolved"] : [])];
  byId("cost-table").append(table([heads, ...rows], found.table[0].name));
}

function contest() {
  const { candidates, tried, chosen, verdict } = content.selection;
  byId("contest-words").textContent = verdict;
  byId("candidates-figure").hidden = !candidates.length;
  byId("tried-figure").hidden = !tried.length;
  if (tried.length) drawTried(byId("tried"), tried);
  if (!candidates.length) return;
  drawCandidates(byId("candidates"), candidates, chosen);
  const rows = candidates.map((row) => [row.name, shown(row.loss), row.name === chosen ? "" : shown(row.standard_error), row.unsolved ? String(row.unsolved) : ""]);
  byId("candidate-table").append(table([["candidate", "loss", "standard error of the difference", "unsolved"], ...rows], chosen));
}

function training() {
  byId("training").hidden = !content.training.length;
  const key = (text, style) => html("span", { class: `key ${style}` }, text);
  const held = content.training.some((stage) => stage.runs.some((run) => run.held_out));
  byId("training-legend").replaceChildren(key("loss", "ours"), held ? key("on held-out rows", "mean dashed") : "");
  for (const stage of content.training) {
    const place = html("div", { class: "chart" });
    byId("curves").append(html("div", {}, html("h3", {}, stage.stage), place));
    drawTraining(place, stage);
  }
}

function lossNet() {
  const found = content.lossNet;
  if (!found || !found.true.length) return void (byId("loss-net").hidden = true);
  byId("loss-net-words").textContent =
    `${found.true.length} held-out pairs; the correlation is ${shown(correlation(found.predicted, found.true))}. Below the line the Loss-Net is too optimistic, which draws scenarios there; a larger regularization prevents it.`;
  drawLossNet(byId("scatter"), found);
}

function correlation(a, b) {
  const mean = (v) => v.reduce((s, x) => s + x, 0) / v.length;
  const [ma, mb] = [mean(a), mean(b)];
  const product = (u, v, mu, mv) => u.reduce((s, x, i) => s + (x - mu) * (v[i] - mv), 0);
  const size = Math.sqrt(product(a, a, ma, ma) * product(b, b, mb, mb));
  return size > 0 ? product(a, b, ma, mb) / size : null;
}

function rest() {
  terms(byId("facts"), content.facts);
  const ms = content.milliseconds;
  byId("solver-words").textContent =
    `${ms.length} single decisions, from context to decision, took ${shown(middle(ms))} ms in the median and ${shown(ms[ms.length - 1])} ms at most. Totals since the policy was fitted or loaded, including this page:`;
  terms(byId("stats"), content.solver);
  byId("call").textContent = content.call;
  byId("call").hidden = !content.call;
  terms(byId("versions"), [
    ...Object.entries(content.versions),
    ...Object.entries(content.fingerprints).map(([what, digest]) => [`${what} (SHA-256)`, digest]),
  ]);
}

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  const choose = (tab) => all.forEach((one) => {
    one.setAttribute("aria-selected", String(one === tab));
    byId(one.getAttribute("aria-controls")).classList.toggle("away", one !== tab);
  });
  all.forEach((tab) => tab.addEventListener("click", () => choose(tab)));
  choose(all[0]);
}

for (const part of [tabs, head, picker, costs, contest, training, lossNet, rest]) part();
