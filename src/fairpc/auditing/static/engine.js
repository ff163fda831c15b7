"use strict";

/* Exact queries on a probabilistic circuit: one pass over its nodes, children first.

   A row is an array of codes, one per variable; -1 is unknown and marginalised. */
const engine = (() => {
  const INDICATOR = 0;
  const PRODUCT = 1;

  /* A probability below this may have lost digits on the way: it is computed again in logarithms. */
  const TINY = 1e-200;

  const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

  function unpackArray(packed) {
    const [type, text] = packed.split(":", 2);
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new ARRAYS[type](bytes.buffer);
  }

  /* The circuit of what Python packed: children of node n are child[ptr[n]] … child[ptr[n + 1] - 1],
     and start[n] is the place of its first weight. */
  function unpack(packed) {
    const kind = unpackArray(packed.kind);
    const counts = unpackArray(packed.n_children);
    const variables = unpackArray(packed.variable);
    const values = unpackArray(packed.value);
    const starts = unpackArray(packed.start);
    const n = kind.length;
    const ptr = new Uint32Array(n + 1);
    const variable = new Int32Array(n);
    const value = new Int32Array(n);
    const start = new Uint32Array(n);
    let leaf = 0;
    let inner = 0;
    let sum = 0;
    for (let i = 0; i < n; i += 1) {
      ptr[i + 1] = ptr[i];
      if (kind[i] === INDICATOR) {
        variable[i] = variables[leaf];
        value[i] = values[leaf];
        leaf += 1;
      } else {
        ptr[i + 1] += counts[inner];
        inner += 1;
        if (kind[i] !== PRODUCT) {
          start[i] = starts[sum];
          sum += 1;
        }
      }
    }
    const theta = unpackArray(packed.theta);
    return {
      kind, variable, value, ptr, start, theta,
      child: unpackArray(packed.child),
      logTheta: theta.map(Math.log),
      arities: packed.arities,
      values: new Float64Array(n),
    };
  }

  function upward(c, codes) {
    const { kind, variable, value, ptr, child, start, theta, values } = c;
    for (let i = 0; i < kind.length; i += 1) {
      const from = ptr[i];
      const to = ptr[i + 1];
      let total;
      if (kind[i] === INDICATOR) {
        const code = codes[variable[i]];
        total = code < 0 || code === value[i] ? 1 : 0;
      } else if (kind[i] === PRODUCT) {
        total = 1;
        for (let e = from; e < to; e += 1) total *= values[child[e]];
      } else {
        total = 0;
        const offset = start[i] - from;
        for (let e = from; e < to; e += 1) total += theta[offset + e] * values[child[e]];
      }
      values[i] = total;
    }
    return values[kind.length - 1];
  }

  function logSum(c, from, to, offset) {
    const { child, logTheta, values } = c;
    let top = -Infinity;
    for (let e = from; e < to; e += 1) {
      top = Math.max(top, logTheta[offset + e] + values[child[e]]);
    }
    if (top === -Infinity) return top;
    let total = 0;
    for (let e = from; e < to; e += 1) {
      total += Math.exp(logTheta[offset + e] + values[child[e]] - top);
    }
    return top + Math.log(total);
  }

  function upwardLog(c, codes) {
    const { kind, variable, value, ptr, child, start, values } = c;
    for (let i = 0; i < kind.length; i += 1) {
      const from = ptr[i];
      const to = ptr[i + 1];
      if (kind[i] === INDICATOR) {
        const code = codes[variable[i]];
        values[i] = code < 0 || code === value[i] ? 0 : -Infinity;
      } else if (kind[i] === PRODUCT) {
        let total = 0;
        for (let e = from; e < to; e += 1) total += values[child[e]];
        values[i] = total;
      } else {
        values[i] = logSum(c, from, to, start[i] - from);
      }
    }
    return values[kind.length - 1];
  }

  /* log P(e); -Infinity where the evidence is impossible. */
  function logMarginal(c, codes) {
    const linear = upward(c, codes);
    return linear > TINY ? Math.log(linear) : upwardLog(c, codes);
  }

  function withCode(codes, column, code) {
    const copy = codes.slice();
    copy[column] = code;
    return copy;
  }

  /* P(variable = v | e) for each v; null where the evidence is impossible. */
  function posterior(c, column, codes) {
    const given = codes[column];
    const logs = [];
    for (let v = 0; v < c.arities[column]; v += 1) {
      const possible = given < 0 || given === v;
      logs.push(possible ? logMarginal(c, withCode(codes, column, v)) : -Infinity);
    }
    const top = Math.max(...logs);
    if (top === -Infinity) return null;
    const shares = logs.map((log) => Math.exp(log - top));
    const total = shares.reduce((sum, share) => sum + share, 0);
    return shares.map((share) => share / total);
  }

  /* How each known value moves P(decision | e): the score with it minus the score without it. */
  function contributions(c, decision, wanted, codes) {
    const now = posterior(c, decision, codes);
    const changes = [];
    if (now === null) return changes;
    codes.forEach((code, column) => {
      if (code < 0 || column === decision) return;
      const without = posterior(c, decision, withCode(codes, column, -1));
      changes.push({ column, code, change: now[wanted] - without[wanted] });
    });
    return changes.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  }

  /* The same person in every group: one posterior per group. */
  function byGroup(c, column, groups, codes) {
    return Array.from({ length: c.arities[groups] }, (_, s) =>
      posterior(c, column, withCode(codes, groups, s)));
  }

  /* The bin of a number: the first is 0, each begins at an edge. */
  function binOf(edges, number) {
    return edges.reduce((code, edge) => code + (number >= edge ? 1 : 0), 0);
  }

  return { unpack, logMarginal, posterior, contributions, byGroup, withCode, binOf };
})();
