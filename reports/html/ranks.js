// Ranks and figures of the chosen models on the chosen datasets, by the rules of
// aggregation/ranking_matrix.py and statistics/. A lower loss is better; null is a missing one.

/** Ranks of one dataset's losses, 1 = best; a run of near-equal neighbours shares its average. */
function ranksOf(losses, tolerance) {
  const order = losses.map((_, j) => j).sort((a, b) => losses[a] - losses[b] || a - b);
  const ranks = new Array(losses.length);
  let start = 0;
  for (let i = 1; i <= order.length; i++) {
    if (i < order.length && near(losses[order[i - 1]], losses[order[i]], tolerance)) continue;
    for (let j = start; j < i; j++) ranks[order[j]] = (start + 1 + i) / 2;
    start = i;
  }
  return ranks;
}

/** The losses, each run of near-equal neighbours as the lowest of the run. */
function snapped(losses, tolerance) {
  const order = losses.map((_, j) => j).sort((a, b) => losses[a] - losses[b] || a - b);
  const found = [...losses];
  for (let i = 1; i < order.length; i++)
    if (near(losses[order[i - 1]], losses[order[i]], tolerance))
      found[order[i]] = found[order[i - 1]];
  return found;
}

function near(low, high, tolerance) {
  return high - low <= tolerance * Math.max(Math.abs(low), Math.abs(high));
}

/**
 * The complete matrix of a choice {models, datasets} of indices: models that cover enough
 * of the chosen datasets, on the datasets on which all of those have a score.
 */
function rankingMatrix(data, choice) {
  const losses = data.losses;
  const planned = (d, m) => data.datasets[d].planned[m] !== "-";
  const scope = choice.datasets.filter((d) => choice.models.some((m) => planned(d, m)));
  const everyone = choice.models.filter((m) => scope.some((d) => planned(d, m)));
  const covered = (m) => scope.filter((d) => losses[d][m] !== null).length;
  const enough = data.rules.min_coverage * scope.length;
  const models = everyone.filter((m) => covered(m) > 0 && covered(m) >= enough);
  const whole = (d) => models.length > 0 && models.every((m) => losses[d][m] !== null);
  const datasets = scope.filter(whole);
  const rows = datasets.map((d) => models.map((m) => losses[d][m]));
  return {
    models,
    datasets,
    scope,
    thin: everyone.filter((m) => !models.includes(m)).map((m) => ({ model: m, n: covered(m) })),
    losses: rows,
    ranks: rows.map((row) => ranksOf(row, data.rules.tolerance)),
  };
}

/** Empty, or the reason why there is no ranking. */
function whyNoRanks(matrix) {
  if (!matrix.scope.length) return "n/a: needs a dataset, has none";
  if (matrix.models.length < 2)
    return `n/a: needs at least 2 models with scores, has ${matrix.models.length}`;
  if (!matrix.datasets.length)
    return "n/a: needs a dataset on which every ranked model has a complete score, has none";
  return "";
}

/** One entry per ranked model, by mean rank, then in the order of the models. */
function standings(data, matrix) {
  if (whyNoRanks(matrix)) return [];
  const rating = eloOf(matrix.ranks, data.rules.centre);
  const scores = matrix.losses.map((row) => normalised(row, data.rules.tolerance));
  const lowest = matrix.ranks.map((row) => Math.min(...row));
  const entries = matrix.models.map((model, j) => {
    const own = matrix.ranks.map((row) => row[j]);
    const average = mean(own);
    const costs = matrix.datasets.map((d) => data.cpu[d][model]).filter((v) => v !== null);
    return {
      model,
      own,
      mean: average,
      se: standardError(own),
      median: quantile(own, 0.5),
      win: (matrix.models.length - average) / (matrix.models.length - 1),
      elo: rating[j],
      score: mean(scores.map((row) => row[j])),
      best: own.filter((rank, i) => rank === lowest[i]).length,
      cpu: costs.length ? costs.reduce((a, b) => a + b, 0) : null,
    };
  });
  return entries.sort((a, b) => a.mean - b.mean || a.model - b.model);
}

function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** s / sqrt(n) with ddof 1; null for a single value. */
function standardError(values) {
  const n = values.length;
  if (n < 2) return null;
  const middle = mean(values);
  const squares = values.reduce((sum, v) => sum + (v - middle) ** 2, 0);
  return Math.sqrt(squares / (n - 1) / n);
}

/** The quantile between order statistics, as numpy's default. */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

/** 1 for the best loss of a dataset, 0 for the worst; 1 for all where all are nearly equal. */
function normalised(given, tolerance) {
  const losses = snapped(given, tolerance);
  const worst = Math.max(...losses);
  const best = Math.min(...losses);
  return losses.map((v) => (worst > best ? (worst - v) / (worst - best) : 1));
}

/** wins[a][b]: datasets on which a ranks before b, ties counting one half. */
function winsOf(ranks) {
  const k = ranks[0].length;
  const wins = Array.from({ length: k }, () => new Array(k).fill(0));
  for (const row of ranks)
    for (let a = 0; a < k; a++)
      for (let b = 0; b < k; b++)
        if (a !== b) wins[a][b] += row[a] < row[b] ? 1 : row[a] === row[b] ? 0.5 : 0;
  return wins;
}

/** Bradley-Terry strengths on Elo's scale; one tie is added per pair if one would be infinite. */
function eloOf(ranks, centre) {
  const wins = winsOf(ranks);
  const k = wins.length;
  let games = ranks.length;
  if (!stronglyConnected(wins)) {
    games += 1;
    for (let a = 0; a < k; a++) for (let b = 0; b < k; b++) if (a !== b) wins[a][b] += 0.5;
  }
  const total = wins.map((row) => row.reduce((x, y) => x + y, 0));
  let strength = new Array(k).fill(1);
  for (let step = 0; step < 10000; step++) {
    let update = strength.map((own, a) => {
      let expected = 0;
      for (let b = 0; b < k; b++) if (b !== a) expected += games / (own + strength[b]);
      return total[a] / expected;
    });
    const scale = Math.exp(mean(update.map(Math.log)));
    update = update.map((v) => v / scale);
    const moved = Math.max(...update.map((v, a) => Math.abs(v / strength[a] - 1)));
    strength = update;
    if (moved < 1e-13) break;
  }
  return strength.map((v) => centre + 400 * Math.log10(v));
}

/** Whether every model has beaten every other, directly or by way of others. */
function stronglyConnected(wins) {
  const reached = (beats) => {
    const seen = new Set([0]);
    for (const a of seen) wins.forEach((_, b) => beats(a, b) && seen.add(b));
    return seen.size === wins.length;
  };
  return reached((a, b) => wins[a][b] > 0) && reached((a, b) => wins[b][a] > 0);
}

/** Difference of two mean ranks from which Nemenyi's test calls them different. */
function criticalDifference(data, k, n) {
  return data.q[k] * Math.sqrt((k * (k + 1)) / (6 * n));
}

/** Largest groups [first, last] of sorted mean ranks that lie within the critical difference. */
function groupsOf(means, cd) {
  const groups = [];
  let last = -1;
  means.forEach((low, i) => {
    let j = i;
    while (j + 1 < means.length && means[j + 1] - low < cd) j++;
    if (j > i && j > last) groups.push([i, j]);
    last = Math.max(last, j);
  });
  return groups;
}
