//! The answer first: how the reference stands against the others by each score, and whether that is more than chance.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::MethodResult;
use fedsi_compare::statistics::{Difference, Metric, MetricResult};
use fedsi_metrics::MIN_PAIRS;

use crate::plots::{LEVEL, capital, is_better};
use crate::tile::Tile;
use crate::words::list;

/// How the reference stands, and what was best.
pub(crate) struct Verdict {
    /// Sentences, the most important first.
    pub(crate) lines: Vec<String>,
    /// The best observed by each score.
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
        let seeds = comparison.seeds.len();
        // Once for all scores.
        let is_untested = seeds < MIN_PAIRS && comparison.reference().is_some();
        if is_untested
            && comparison.methods.iter().filter(|method| method.standing.unranked.is_none()).count() > 1
        {
            let plural = if seeds == 1 { " is" } else { "s are" };
            lines.push(format!("{seeds} seed{plural} too few for a test: all of this is as observed."));
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
    // Equals stay in the order in which methods are listed.
    all.sort_by_key(|(_, result, _)| result.rank);
    all
}

fn score(metric: &Metric, value: f64) -> String {
    match (metric.is_share, metric.key.as_str()) {
        (true, _) => format!("{:.2}%", 100.0 * value),
        (false, "aurc") => format!("{value:.5}"),
        (false, _) => format!("{value:.4}"),
    }
}

/// A few sentences of one score.
fn line(comparison: &Comparison, metric: &Metric) -> Option<String> {
    let all = ranked(comparison, metric);
    let (best, _, best_value) = all.first()?;
    let observed = format!("{} ({})", best.title, score(metric, *best_value));
    let reference = comparison.reference();
    let own = reference.and_then(|reference| all.iter().find(|(method, ..)| method.name == reference.name));
    let Some((reference, result, value)) = own else {
        let why = match reference {
            Some(reference) => format!("{} has no rank, so nothing is tested against it", reference.title),
            None => {
                "an older version made this comparison: compare again for tests, runs are reused".to_owned()
            }
        };
        return Some(format!("{}: best observed {observed}; {why}.", capital(&metric.title)));
    };
    let mut text = format!("{}: {} {}", capital(&metric.title), reference.title, score(metric, *value));
    if let Some(floor) = result.floor {
        text.push_str(&format!(" (floor {})", score(metric, floor)));
    }
    if all.len() < 2 {
        text.push_str(", the only method that can be ranked.");
        return Some(text);
    }
    if best.name != reference.name {
        text.push_str(&format!(", best observed {observed}"));
    }
    text.push('.');
    if comparison.paired_seeds() < MIN_PAIRS {
        return Some(text);
    }
    text.push(' ');
    text.push_str(&findings(metric, &reference.name, &all));
    if let Some(above) = &result.above_floor {
        text.push_str(&format!(" {}", floor_sentence(above)));
    }
    Some(text)
}

/// Whether the bootstrap over seeds and clients leaves the sign of a difference open.
fn contains_zero(bootstrap: Option<[f64; 2]>) -> bool {
    bootstrap.is_some_and(|[low, high]| low <= 0.0 && high >= 0.0)
}

/// Whom the reference is better than, whom worse, and of whom nobody can say.
fn findings(metric: &Metric, reference: &str, all: &[(&MethodResult, &MetricResult, f64)]) -> String {
    let (mut beaten, mut open, mut ahead, mut untested) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (method, result, _) in all.iter().filter(|(method, ..)| method.name != reference) {
        let Some(found) = &result.difference else { continue };
        let list = match found.p_holm {
            None => &mut untested,
            Some(p) if p >= LEVEL || contains_zero(found.bootstrap) => &mut open,
            Some(_) if is_better(metric, found.mean) => &mut ahead,
            Some(_) => &mut beaten,
        };
        list.push(method.title.clone());
    }
    let is_all = open.is_empty() && ahead.is_empty() && untested.is_empty();
    let mut parts = Vec::new();
    if is_all && beaten.len() > 1 {
        parts.push("Significantly better than every other ranked method.".to_owned());
    } else if !beaten.is_empty() {
        parts.push(format!("Significantly better than {}.", list(&beaten)));
    }
    if !ahead.is_empty() {
        parts.push(format!("Significantly worse than {}.", list(&ahead)));
    }
    if !open.is_empty() {
        parts.push(format!("No significant difference from {}.", list(&open)));
    }
    if !untested.is_empty() {
        let whom = list(&untested);
        parts.push(format!("No test against {whom}: the difference is the same on every seed."));
    }
    parts.join(" ")
}

/// Whether an ECE is more than chance gives.
fn floor_sentence(above: &Difference) -> &'static str {
    match above.p_holm {
        Some(p) if p < LEVEL && above.mean > 0.0 => "It is significantly above its floor.",
        Some(p) if p < LEVEL => "It is below its floor.",
        _ => "It cannot be told from perfect calibration.",
    }
}

fn tile(comparison: &Comparison, metric: &Metric) -> Option<Tile> {
    let all = ranked(comparison, metric);
    let (best, result, value) = all.first()?;
    let floor = result.floor.map_or_else(String::new, |floor| format!(" (floor {})", score(metric, floor)));
    let next = all.get(1).map_or_else(String::new, |(method, _, value)| {
        format!(", then {} {}", method.title, score(metric, *value))
    });
    Some(Tile {
        name: format!("best observed {}", metric.title),
        value: score(metric, *value),
        note: format!("{}{floor}{next}", best.title),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Methods a to d over so many seeds, with these ranks, differences from a and corrected p-values; one without a rank is
    /// not comparable.
    type Results<'a> = &'a [(Option<usize>, Option<(f64, Option<f64>)>)];

    fn comparison(seeds: usize, results: Results<'_>, reference: Option<&str>) -> Comparison {
        let methods = ["a", "b", "c", "d"].iter().zip(results).map(|(name, (rank, difference))| {
            let difference = difference.map(|(mean, p)| {
                serde_json::json!({ "mean": mean, "interval": p.map(|_| [mean - 0.1, mean + 0.1]), "p": p, "p_holm": p })
            });
            serde_json::json!({
                "name": name, "title": name, "source": "", "evaluated": "", "runs": [], "failures": [],
                "unranked": rank.is_none().then_some("it lacks a client"),
                "metrics": { "nll": { "mean": 0.5, "std": 0.1, "rank": rank, "difference": difference } },
            })
        });
        let text = serde_json::json!({
            "dataset": "digits", "size": "small", "seeds": (1..=seeds).collect::<Vec<_>>(), "rounds": 2, "jobs": 1,
            "version": "0", "methods": methods.collect::<Vec<_>>(), "reference": reference,
            "metrics": [{ "key": "nll", "title": "NLL", "direction": "lower", "is_share": false, "shown": true, "tested": true }],
        });
        serde_json::from_value(text).unwrap()
    }

    fn said(seeds: usize, results: Results<'_>) -> String {
        Verdict::of(&comparison(seeds, results, Some("a"))).lines.join(" ")
    }

    #[test]
    fn without_a_test_nothing_is_significant() {
        let own = (Some(1), None);
        let few = said(2, &[own, (Some(2), Some((0.1, None)))]);
        assert_eq!(few, "NLL: a 0.5000. 2 seeds are too few for a test: all of this is as observed.");
        let alike = said(5, &[own, (Some(2), Some((0.1, None)))]);
        assert_eq!(alike, "NLL: a 0.5000. No test against b: the difference is the same on every seed.");
    }

    #[test]
    fn the_reference_may_be_better_worse_or_neither() {
        let (own, better) = ((Some(2), None), (Some(1), Some((-0.1, Some(0.01)))));
        let mixed =
            said(5, &[own, better, (Some(3), Some((0.1, Some(0.2)))), (Some(4), Some((0.2, Some(0.001))))]);
        assert_eq!(
            mixed,
            "NLL: a 0.5000, best observed b (0.5000). Significantly better than d. Significantly worse than b. No \
             significant difference from c."
        );
        let worse = (Some(2), Some((0.1, Some(0.01))));
        let all = said(5, &[(Some(1), None), worse, worse]);
        assert!(all.ends_with("Significantly better than every other ranked method."), "{all}");
    }

    #[test]
    fn a_method_without_a_rank_is_in_no_sentence() {
        let one = said(5, &[(Some(1), None), (None, None)]);
        assert_eq!(one, "NLL: a 0.5000, the only method that can be ranked.");
        let without = said(5, &[(None, None), (Some(1), None)]);
        assert_eq!(without, "NLL: best observed b (0.5000); a has no rank, so nothing is tested against it.");
        let none = said(5, &[(None, None), (None, None)]);
        assert!(none.starts_with("No method can be ranked"), "{none}");
    }

    #[test]
    fn an_older_comparison_has_no_test() {
        let old = comparison(5, &[(Some(1), None), (Some(2), None)], None);
        let line = Verdict::of(&old).lines.join(" ");
        assert!(line.starts_with("NLL: best observed a (0.5000); an older version"), "{line}");
    }
}
