//! What came out, in sentences that follow the tests and never a point alone.

mod own_classes;
mod strange;

use fedsi_metrics::{holm, paired_t_test};

use crate::cells::{Comparison, SettingCells, by_title, is_higher_better, range};
use crate::entry::{REFERENCE, Source};
use crate::setting::Variation;
use crate::tables::{minus_interval, p_equals, signed};
use crate::text::{number, score_title};

pub use own_classes::over_own_classes;
pub use strange::strange_verdicts;

/// Where FedSI stands by a score under a setting: against the best of the other methods, and against FedSI-Fac, by how much, and
/// how sure that is. None where FedSI has not been run.
#[must_use]
pub fn verdict(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let reference = cells.reference()?;
    let name = |row: usize| cells.rows[row].entry.title;
    let value = |row: usize| cells.spread(row, score).map(|spread| shown(score, spread.mean));
    let ours = format!("{} has {}", name(reference), value(reference)?);
    let ranked = cells.ranked(score);
    if !ranked.contains(&reference) {
        return Some(format!("{ours}; some of its runs or clients are missing, so that nothing is ranked"));
    }
    // FedSI-Fac and the other profile are FedSI too: first the other methods, where there are any.
    let is_other = |row: &usize| !cells.rows[*row].entry.method.starts_with("fedsi");
    let with = |wanted: &dyn Fn(&usize) -> bool| -> Vec<usize> {
        ranked.iter().copied().filter(|row| *row != reference && wanted(row)).collect()
    };
    let (methods, variants) = (with(&is_other), with(&|row| !is_other(row)));
    let (rivals, variants) = if methods.is_empty() { (variants, Vec::new()) } else { (methods, variants) };
    let Some(&best) = rivals.first() else {
        return Some(format!("{ours}; no other method has all of its seeds and rounds yet"));
    };
    let ahead_of_us =
        ranked.iter().take_while(|row| **row != reference).filter(|row| rivals.contains(row)).count();
    let is_tied = |row: &&usize| cells.comparison(**row, score) == Comparison::Tied;
    let tied: Vec<&str> =
        rivals.iter().filter(|row| **row != best).filter(is_tied).map(|&row| name(row)).collect();
    let all_ranked = cells.unranked(score).iter().all(|row| !is_other(row));
    let whom = match (rivals.len(), all_ranked) {
        (1, true) => "the one rival".to_owned(),
        (count, true) => format!("all {count} rivals"),
        (1, false) => "the one rival that is ranked".to_owned(),
        (count, false) => format!("the {count} rivals that are ranked"),
    };
    let claim = match (ahead_of_us, cells.comparison(best, score)) {
        (0, Comparison::Worse) if tied.is_empty() => format!("is ahead of {whom}**"),
        (0, Comparison::Worse) => {
            format!("has the best mean beside {whom}**, significantly ahead of the next")
        }
        (0, Comparison::Tied) => format!("has the best mean beside {whom}**, not significantly ahead"),
        (0, _) => format!("has the best mean beside {whom}**, not tested"),
        (_, Comparison::Tied) => format!("is not significantly behind the best of {whom}**"),
        (_, Comparison::Better) => {
            format!("is behind**, {} of {}", ordinal(ahead_of_us + 1), rivals.len() + 1)
        }
        _ => format!("is {} of {}**, not tested", ordinal(ahead_of_us + 1), rivals.len() + 1),
    };
    let floor = cells.result(reference, score).and_then(|result| result.floor);
    let floor = floor.map_or(String::new(), |floor| format!(" (floor {})", number(score, floor)));
    let mut text = format!(
        "**{} {claim}: {}{floor}; {} {} ({})",
        name(reference),
        value(reference)?,
        if ahead_of_us == 0 { "next:" } else { "best:" },
        format_args!("{} {}", name(best), value(best)?),
        how_sure(cells, best, score)
    );
    if !tied.is_empty() {
        text.push_str(&format!("; no significant difference from {}", tied.join(", ")));
    }
    for &row in variants.iter().filter(|&&row| cells.rows[row].entry.source == Source::Calibrated) {
        let relation = match cells.comparison(row, score) {
            Comparison::Worse => "is worse than FedSI",
            Comparison::Better => "is **better** than FedSI",
            Comparison::Tied => "does not differ significantly",
            Comparison::Reference | Comparison::Untested => "is not tested",
        };
        text.push_str(&format!(
            "; {} {} {relation} ({})",
            name(row),
            value(row)?,
            how_sure(cells, row, score)
        ));
    }
    Some(text)
}

/// FedSI minus a row, with the interval, and p with the number of tests that it is corrected for.
fn how_sure(cells: &SettingCells<'_>, row: usize, score: &str) -> String {
    let difference = cells.result(row, score).and_then(|result| result.difference);
    match difference.and_then(|found| Some((found.mean, found.interval?, found.p_holm?))) {
        Some((mean, ends, p)) => format!(
            "FedSI minus it: {}, 95% interval {}, {} after Holm over {}",
            signed(score, -mean),
            minus_interval(score, ends),
            p_equals(p),
            cells.tests(score)
        ),
        None => {
            let seeds = cells.reference().map(|row| cells.rows[row].seeds());
            format!("{}: no test", seeds.unwrap_or_default())
        }
    }
}

/// Where FedSI stands in both profiles, on the seeds that all rows with its rounds have.
#[must_use]
pub fn on_common_seeds(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let (rows, seeds) = cells.common_seeds();
    let mean = |row: usize| {
        let all = cells.by_seed(row, score);
        let values: Option<Vec<f64>> = seeds.iter().map(|seed| all.get(seed).copied()).collect();
        fedsi_metrics::Summary::of(values?).map(|spread| spread.mean)
    };
    let mut ranked: Vec<(f64, usize)> = rows.iter().filter_map(|&row| Some((mean(row)?, row))).collect();
    ranked.sort_by(|a, b| if is_higher_better(score) { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
    let of_fedsi = ranked.iter().enumerate().filter(|(_, (_, row))| cells.rows[*row].entry.method == "fedsi");
    let mut parts: Vec<String> = of_fedsi
        .map(|(place, &(value, row))| {
            format!("{} {}, {}", cells.rows[row].entry.title, shown(score, value), ordinal(place + 1))
        })
        .collect();
    let (first, last) = (seeds.first()?, seeds.last()?);
    if ranked.len() < 2 || parts.is_empty() {
        return None;
    }
    parts[0].push_str(&format!(" of {}", ranked.len()));
    let seeds = if first == last { format!("seed {first}") } else { format!("seeds {first} to {last}") };
    Some(format!(
        "{} on {seeds}, which all {} rows have: {}",
        score_title(score),
        ranked.len(),
        parts.join("; ")
    ))
}

/// 1st, 2nd, 3rd, 4th.
fn ordinal(place: usize) -> String {
    let ending = match (place % 10, place % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

/// The rows that the verdicts under a setting leave out, where there are any.
#[must_use]
pub fn left_out(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let unranked = cells.unranked(score);
    let names: Vec<&str> = unranked.iter().map(|&row| cells.rows[row].entry.title).collect();
    (!names.is_empty()).then(|| format!("not ranked, too few seeds, rounds or clients: {}", names.join(", ")))
}

/// A score of FedSI, in both profiles, at each value of what is varied: what the experiment asks for, before any test.
#[must_use]
pub fn variation_values(all: &[SettingCells<'_>], score: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (title, own) in by_title(all) {
        let rows = &own[0].rows;
        for row in (0..rows.len()).filter(|&row| rows[row].entry.method == "fedsi") {
            let value = |cells: &SettingCells<'_>| {
                let mean = cells.spread(row, score)?.mean;
                Some(format!("{} at {}", shown(score, mean), cells.setting.variation.value_label()?))
            };
            let values: Vec<String> = own.iter().filter_map(|cells| value(cells)).collect();
            if values.is_empty() {
                continue;
            }
            let seeds =
                own.iter().map(|cells| cells.rows[row].records.len()).filter(|seeds| *seeds > 0).collect();
            let rounds = own.iter().filter_map(|cells| cells.rows[row].rounds).collect();
            let runs = [range(&rounds, "round"), range(&seeds, "seed")];
            lines.push(format!(
                "{}, {title}: {} ({})",
                rows[row].entry.title,
                values.join(", "),
                runs.into_iter().flatten().collect::<Vec<_>>().join(", ")
            ));
        }
    }
    lines
}

/// What varying a setting changes for FedSI: each value against the usual one, paired over seeds, corrected by Holm.
#[must_use]
pub fn variation_verdicts(all: &[SettingCells<'_>], score: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for usual in all.iter().filter(|cells| is_usual(cells)) {
        let Some(row) = usual.rows.iter().position(|row| row.entry.id == REFERENCE) else { continue };
        let own = usual.by_seed(row, score);
        let others =
            all.iter().filter(|cells| cells.setting.title == usual.setting.title && !is_usual(cells));
        let tests: Vec<_> = others
            .filter(|cells| cells.rows[row].rounds == usual.rows[row].rounds)
            .filter_map(|cells| {
                let found = cells.by_seed(row, score);
                let pairs: Vec<(f64, f64)> =
                    found.iter().filter_map(|(seed, value)| Some((*value, *own.get(seed)?))).collect();
                Some((cells.setting.label(), paired_t_test(&pairs)?))
            })
            .collect();
        let corrected = holm(&tests.iter().map(|(_, test)| test.p).collect::<Vec<_>>());
        for ((label, test), p) in tests.iter().zip(corrected) {
            let [low, high]: [f64; 2] = test.interval.into();
            lines.push(format!(
                "FedSI (calibrated), {label} minus {}: 95% interval {} to {}, {}{}",
                usual.setting.label(),
                signed(score, low),
                signed(score, high),
                p_equals(p),
                if p < 0.05 { "" } else { ": no significant difference" }
            ));
        }
    }
    lines
}

fn is_usual(cells: &SettingCells<'_>) -> bool {
    match cells.setting.variation {
        Variation::None | Variation::NovelClient => false,
        Variation::SubnetworkPercent(_) | Variation::LocalEpochs(_) => cells.setting.is_plain_small(),
    }
}

fn shown(score: &str, value: f64) -> String {
    format!("{}{}", number(score, value), if score == "accuracy" { "%" } else { "" })
}

#[cfg(test)]
mod tests;
