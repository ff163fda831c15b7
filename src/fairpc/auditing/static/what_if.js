"use strict";

/* The form "What if": reads the chosen values, asks the engine, writes the answers as text. */
const whatIf = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("what-if-data").textContent);
  const circuit = engine.unpack(data.circuit);
  const { group, decision, observed, positive } = data.roles;
  const form = document.getElementById("what-if-form");
  const answers = document.getElementById("what-if-answers");
  const status = document.getElementById("what-if-status");
  const latent = decision !== observed;
  const selects = Array.from(form.querySelectorAll("select"));
  const fields = new Map(Array.from(form.querySelectorAll("input"), (field) => [field.dataset.column, field]));
  const nameOf = new Map(data.variables.map((variable) => [variable.column, variable]));

  /* The answers to one row of codes, as plain numbers. */
  function query(codes) {
    const hidden = engine.posterior(circuit, decision, codes);
    if (hidden === null) return null;
    return {
      logEvidence: engine.logMarginal(circuit, codes),
      decision: hidden,
      observed: engine.posterior(circuit, observed, codes),
      contributions: engine.contributions(circuit, decision, positive, codes),
      groups: {
        decision: engine.byGroup(circuit, decision, group, codes),
        observed: engine.byGroup(circuit, observed, group, codes),
      },
    };
  }

  function codesOf() {
    const codes = circuit.arities.map(() => -1);
    for (const select of selects) codes[Number(select.dataset.column)] = Number(select.value);
    return codes;
  }

  /* What is written into a field as Python counts it: a number, or microseconds since 1970. */
  function numberIn(field) {
    return field.type === "date" ? 1000 * Date.parse(field.value) : Number.parseFloat(field.value);
  }

  /* A number that is written chooses its bin; a bin that is chosen takes the number away. */
  function written(event) {
    const changed = event.target;
    if (changed.tagName === "INPUT") {
      const number = numberIn(changed);
      const { edges } = nameOf.get(Number(changed.dataset.column));
      const select = selects.find((one) => one.dataset.column === changed.dataset.column);
      select.value = String(Number.isNaN(number) ? -1 : engine.binOf(edges, number));
    } else if (fields.has(changed.dataset.column)) {
      fields.get(changed.dataset.column).value = "";
    }
    show();
  }

  const minus = (text) => text.replace("-", "−");
  const share = (value) => `${(100 * value).toFixed(1)}%`;
  function points(value) {
    const text = (100 * value).toFixed(1);
    if (Number(text) === 0) return "0.0";
    return value > 0 ? `+${text}` : minus(text);
  }

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function shape(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    return node;
  }

  /* A bar from `from` to `to` on a track from 0 to 1; the number stands beside it as text. */
  function meter(from, to, style) {
    const svg = shape("svg", {
      class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true",
    });
    const low = 100 * Math.min(from, to);
    const width = Math.max(100 * Math.abs(to - from), 0.4);
    svg.append(
      shape("rect", { class: "track", x: 0, y: 3, width: 100, height: 2 }),
      shape("rect", { class: `fill ${style}`, x: low, y: 0, width, height: 8 }),
      shape("line", { class: "axis", x1: 100 * from, y1: 0, x2: 100 * from, y2: 8 }),
    );
    return svg;
  }

  function table(caption, head, rows) {
    const body = make("tbody", {}, ...rows);
    const cells = head.map(([text, css]) => make("th", { scope: "col", class: css }, text));
    return make("table", {},
      make("caption", {}, caption), make("thead", {}, make("tr", {}, ...cells)), body);
  }

  function row(current, name, ...cells) {
    return make("tr", current ? { class: "current" } : {},
      make("th", { scope: "row" }, make("bdi", {}, name)), ...cells);
  }

  const numberCell = (text) => make("td", { class: "num" }, text);
  const meterCell = (...ends) => make("td", { class: "wide" }, meter(...ends));

  /* Cells for P(decision) and, where there is a latent fair decision apart from it, P(label). */
  function cells(hidden, label, favoured = true) {
    const first = [numberCell(share(hidden)), meterCell(0, hidden, favoured ? "s2" : "s3")];
    return latent ? [...first, numberCell(share(label))] : first;
  }

  function head(name) {
    const first = [[name, ""], [data.decisionName, "num"], ["", ""]];
    return latent ? [...first, [data.observedName, "num"]] : first;
  }

  function answerTable(found) {
    const rows = data.classes.map((name, k) =>
      row(k === positive, name, ...cells(found.decision[k], found.observed[k], k === positive)));
    return table("Given the values you set; unknown values are marginalised.", head("Class"), rows);
  }

  function groupTable(found, codes) {
    const rows = nameOf.get(group).values.map((name, s) => {
      const hidden = found.groups.decision[s];
      const label = found.groups.observed[s];
      const title = codes[group] === s ? `${name} (as set)` : name;
      if (hidden === null) return row(false, title, numberCell("impossible"), numberCell(""));
      return row(codes[group] === s, title, ...cells(hidden[positive], label[positive]));
    });
    return table(`The same values in each group: probability of “${data.classes[positive]}”.`,
      head("Group"), rows);
  }

  function contributionTable(found) {
    const largest = Math.max(...found.contributions.map(({ change }) => Math.abs(change)), 1e-9);
    const rows = found.contributions.map(({ column, code, change }) => {
      const variable = nameOf.get(column);
      return row(false, `${variable.name}: ${variable.values[code]}`, numberCell(points(change)),
        meterCell(0.5, 0.5 + change / largest / 2, change < 0 ? "s3" : "s2"));
    });
    return table(
      `Points by which each known value moves the probability of “${data.classes[positive]}”: ` +
      "with it, minus with it unknown and all else as set. They need not add up.",
      [["Known value", ""], ["Points", "num"], ["lowers | raises", "middle"]], rows);
  }

  function summary(found) {
    const hidden = share(found.decision[positive]);
    const name = `“${data.classes[positive]}”`;
    if (!latent) return `The label is ${name} with probability ${hidden}.`;
    return `The fair decision is ${name} with probability ${hidden}, the recorded label with ` +
      `${share(found.observed[positive])}.`;
  }

  function frequency(logEvidence) {
    const people = Math.exp(-logEvidence);
    if (people < 1.05) return "Nothing is known yet: these are the rates of the whole population under the model.";
    const shown = people < 1e6 ? Math.round(people).toLocaleString("en") : people.toExponential(1);
    return `Under the model, about one person in ${shown} has these values.`;
  }

  function show() {
    const codes = codesOf();
    for (const select of selects) select.classList.toggle("known", select.value !== "-1");
    const found = query(codes);
    if (found === null) {
      status.textContent =
        "Under the model these values cannot occur together: set one of them to unknown.";
      answers.replaceChildren();
      return;
    }
    status.textContent = summary(found);
    const parts = [
      answerTable(found),
      make("p", { class: "note" }, frequency(found.logEvidence)),
      make("h3", {}, "The same person in each group"), groupTable(found, codes),
    ];
    if (found.contributions.length) {
      parts.push(make("h3", {}, "What moves it"), contributionTable(found));
    }
    answers.replaceChildren(...parts);
  }

  /* One after the other, the likeliest value of each unknown feature given those before it. */
  function fill() {
    for (const select of selects) {
      if (select.value !== "-1") continue;
      const chances = engine.posterior(circuit, Number(select.dataset.column), codesOf());
      if (chances === null) break;
      select.value = String(chances.indexOf(Math.max(...chances)));
    }
    show();
  }

  function clear() {
    for (const select of selects) select.value = "-1";
    for (const field of fields.values()) field.value = "";
    show();
  }

  form.addEventListener("input", written);
  /* A field that is emptied by a tool, not by keys, may only tell that it changed. */
  for (const field of fields.values()) field.addEventListener("change", written);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("what-if-fill").addEventListener("click", fill);
  document.getElementById("what-if-clear").addEventListener("click", clear);
  document.getElementById("what-if-tool").hidden = false;
  clear();
  return { query, codesOf, show };
})();
