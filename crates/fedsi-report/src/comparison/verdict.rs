//! The answer first: who is best, by what, and whether that is more than chance.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::MethodResult;
use fedsi_compare::statistics::{Metric, MetricResult};

use crate::headline::Tile;

/// A difference with a p-value below this is called significant.
const LEVEL: f64 = 0.05;

/// With fewer seeds the verdict reports no test: two differences are alike by chance too often.
pub(crate) const MIN_SEEDS: usize = 3;

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
            lines.push("Nothing was evaluated: no method has a complete run with test data.".to_owned());
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
        text.push_str(", the only one with all its runs.");
        return Some(text);
    }
    let others = &all[1..];
    let tested: Vec<(&str, f64)> =
        others.iter().filter_map(|(method, result, _)| Some((method.title.as_str(), result.p?))).collect();
    let (second, _, next) = others[0];
    text.push_str(&format!(", before {} ({}). ", second.title, score(metric, next)));
    if tested.is_empty() || comparison.seeds.len() < MIN_SEEDS {
        let seeds = if comparison.seeds.len() == 2 { "Two seeds are" } else { "One seed is" };
        text.push_str(&format!("{seeds} too few for a significance test."));
        return Some(text);
    }
    let adjusted = holm(&tested.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    let (mut beaten, mut close) = (Vec::new(), Vec::new());
    for ((name, _), p) in tested.iter().zip(&adjusted) {
        if *p < LEVEL { beaten.push(*name) } else { close.push(*name) }
    }
    text.push_str(&match (beaten.len(), close.len()) {
        (_, 0) => "Significantly better than every other method.".to_owned(),
        (0, _) => {
            format!("No difference from another method is significant over {} seeds.", comparison.seeds.len())
        }
        _ => format!(
            "Significantly better than {}; no significant difference from {}.",
            list(&beaten),
            list(&close)
        ),
    });
    Some(text)
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
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
        assert_eq!([list(&["a"]), list(&["a", "b", "c"])], ["a", "a, b and c"]);
    }
}
