//! The answer first: who is best, by what, and whether that is more than chance.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::MethodResult;
use fedsi_compare::statistics::{Metric, MetricResult};
use fedsi_metrics::MIN_PAIRS;

use crate::headline::Tile;

/// A difference with a p-value below this is called significant.
const LEVEL: f64 = 0.05;

/// Who is best, by what, and by how much.
pub(crate) struct Verdict {
    /// Sentences, the most important first.
    pub(crate) lines: Vec<String>,
    /// The best by each score.
    pub(crate) tiles: Vec<Tile>,
}

impl Verdict {
    pub(crate) fn of(comparison: &Comparison) -> Self {
        let tested = comparison.metrics.iter().filter(|metric| metric.tested);
        let mut lines: Vec<String> = tested.filter_map(|metric| line(comparison, metric)).collect();
        if lines.is_empty() {
            let ranked = comparison.methods.iter().all(|method| method.standing.unranked.is_none());
            lines.push(if ranked {
                "Nothing was evaluated: no method has a complete run with test data.".to_owned()
            } else {
                "No method can be ranked: each lacks seeds or clients that another was scored on.".to_owned()
            });
        }
        let shown = comparison.metrics.iter().filter(|metric| metric.shown);
        Self { lines, tiles: shown.filter_map(|metric| tile(comparison, metric)).collect() }
    }
}

/// Methods with a rank by this score, the best first.
fn ranked<'a>(comparison: &'a Comparison, metric: &Metric) -> Vec<(&'a MethodResult, &'a MetricResult, f64)> {
    let found = comparison.methods.iter().filter_map(|method| {
        let result = method.metrics.get(&metric.key)?;
        result.rank?;
        Some((method, result, result.mean?))
    });
    let mut all: Vec<_> = found.collect();
    // The first of equals is what the others are tested against.
    all.sort_by_key(|(_, result, _)| result.rank);
    all
}

fn score(metric: &Metric, value: f64) -> String {
    if metric.is_share { format!("{:.2}%", 100.0 * value) } else { format!("{value:.4}") }
}

/// One sentence or two of one score.
fn line(comparison: &Comparison, metric: &Metric) -> Option<String> {
    let all = ranked(comparison, metric);
    let (best, _, value) = all.first()?;
    let mut text = format!("Best by {}: {} ({})", metric.title, best.title, score(metric, *value));
    if all.len() < 2 {
        text.push_str(", the only method that can be ranked.");
        return Some(text);
    }
    let others = &all[1..];
    let (second, _, next) = others[0];
    text.push_str(&format!(", before {} ({}). ", second.title, score(metric, next)));
    if comparison.seeds.len() < MIN_PAIRS {
        let seeds = comparison.seeds.len();
        let plural = if seeds == 1 { " is" } else { "s are" };
        text.push_str(&format!("{seeds} seed{plural} too few seeds for a test."));
        return Some(text);
    }
    let title = |(method, ..): &(&'_ MethodResult, &MetricResult, f64)| method.title.clone();
    let tested: Vec<(String, f64)> =
        others.iter().filter_map(|other| Some((title(other), other.1.p?))).collect();
    let untested: Vec<String> =
        others.iter().filter(|(_, result, _)| result.p.is_none()).map(title).collect();
    let adjusted = holm(&tested.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    let (mut beaten, mut close) = (Vec::new(), Vec::new());
    for ((name, _), p) in tested.into_iter().zip(adjusted) {
        if p < LEVEL { beaten.push(name) } else { close.push(name) }
    }
    let mut parts = Vec::new();
    match (beaten.len(), close.len()) {
        (0, 0) => {}
        (_, 0) if untested.is_empty() => {
            parts.push("Significantly better than every other ranked method.".to_owned());
        }
        (_, 0) => parts.push(format!("Significantly better than {}.", list(&beaten))),
        (0, _) => parts.push(format!(
            "No significant difference from {} over {} seeds.",
            list(&close),
            comparison.seeds.len()
        )),
        _ => parts.push(format!(
            "Significantly better than {}; no significant difference from {}.",
            list(&beaten),
            list(&close)
        )),
    }
    if !untested.is_empty() {
        let whom = list(&untested);
        parts.push(format!("No test against {whom}: the difference is the same on every seed."));
    }
    text.push_str(&parts.join(" "));
    Some(text)
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// p-values after Holm's correction for how many there are: then less than one in twenty comparisons without any
/// difference names one.
fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let (mut adjusted, mut largest) = (vec![1.0; values.len()], 0.0_f64);
    for (step, &place) in order.iter().enumerate() {
        largest = largest.max((values.len() - step) as f64 * values[place]).min(1.0);
        adjusted[place] = largest;
    }
    adjusted
}

fn tile(comparison: &Comparison, metric: &Metric) -> Option<Tile> {
    let all = ranked(comparison, metric);
    let (best, _, value) = all.first()?;
    let next = all.get(1).map_or_else(String::new, |(method, _, value)| {
        format!(", then {} {}", method.title, score(metric, *value))
    });
    Some(Tile {
        name: format!("best {}", metric.title),
        value: score(metric, *value),
        note: format!("{}{next}", best.title),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_s_correction() {
        let found = holm(&[0.01, 0.04, 0.03]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn lists_read_well() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([list(&names[..1]), list(&names)], ["a", "a, b and c"]);
    }

    /// Methods a to d over so many seeds, with these ranks and p-values; one without a rank is not comparable.
    fn comparison(seeds: usize, results: &[(Option<usize>, Option<f64>)]) -> Comparison {
        let methods = ["a", "b", "c", "d"].iter().zip(results).map(|(name, (rank, p))| {
            serde_json::json!({
                "name": name, "title": name, "source": "", "evaluated": "", "runs": [], "failures": [],
                "unranked": rank.is_none().then_some("it lacks a client"),
                "metrics": { "nll": {
                    "mean": 0.5, "std": 0.1, "rank": rank, "p": p,
                    "against_best": { "wins": 0, "losses": 0, "ties": 0 },
                } },
            })
        });
        let text = serde_json::json!({
            "dataset": "digits", "size": "small", "seeds": (1..=seeds).collect::<Vec<_>>(), "rounds": 2, "jobs": 1,
            "version": "0", "methods": methods.collect::<Vec<_>>(),
            "metrics": [{ "key": "nll", "title": "NLL", "direction": "lower", "is_share": false, "shown": true, "tested": true }],
        });
        serde_json::from_value(text).unwrap()
    }

    fn said(seeds: usize, results: &[(Option<usize>, Option<f64>)]) -> String {
        Verdict::of(&comparison(seeds, results)).lines.join(" ")
    }

    #[test]
    fn without_a_test_nothing_is_significant() {
        let best = (Some(1), None);
        let few = said(2, &[best, (Some(2), None)]);
        assert_eq!(few, "Best by NLL: a (0.5000), before b (0.5000). 2 seeds are too few seeds for a test.");
        let alike = said(5, &[best, (Some(2), None)]);
        assert!(alike.ends_with(". No test against b: the difference is the same on every seed."), "{alike}");
        let mixed = said(5, &[best, (Some(2), Some(0.001)), (Some(3), None)]);
        assert!(mixed.contains("Significantly better than b. No test against c"), "{mixed}");
        // Corrected for two tests, not three: .02 stays below .05, and with three it would not.
        let corrected = said(5, &[best, (Some(2), Some(0.02)), (Some(3), Some(0.02)), (Some(4), None)]);
        assert!(corrected.contains("Significantly better than b and c."), "{corrected}");
    }

    #[test]
    fn a_method_without_a_rank_is_in_no_sentence() {
        let one = said(5, &[(None, None), (Some(1), None)]);
        assert_eq!(one, "Best by NLL: b (0.5000), the only method that can be ranked.");
        let none = said(5, &[(None, None), (None, None)]);
        assert!(none.starts_with("No method can be ranked"), "{none}");
    }
}
