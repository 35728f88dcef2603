//! What a run's scores allow to say, chosen by intervals and tests, never by a point.

use fedsi_fl::scores::Scores;
use fedsi_metrics::regression::LEVELS;
use fedsi_metrics::{binomial_test, holm, wilson};
use fedsi_run::{ClassScores, ClientScores, ResampledUnit, Summary};

use crate::words::{digits_for, list, number_range, percent, percent_range, points, points_range};

/// Differences that chance gives less often than this are said to be there.
pub(crate) const LEVEL: f64 = 0.05;

/// An interval this close to 0 says that confidence and accuracy agree, for any use of it.
const CLOSE: f64 = 0.05;

/// Below this a gap is called slight.
const SLIGHT: f64 = 0.02;

/// Classes with a smaller share of the test rows are rare.
const RARE: f64 = 0.1;

/// Classes and clients that are named.
const MAX_MISSED: usize = 3;

/// Sentences about a run, the most important first: how right it is and against what, how calibrated, and which
/// classes it misses. Nothing where nothing was scored.
#[must_use]
pub fn run_verdict(summary: &Summary) -> Vec<String> {
    match summary.scores {
        Scores::Classification { accuracy: Some(accuracy), .. } => {
            let mut lines = vec![accuracy_sentence(summary, accuracy)];
            lines.extend(missed_sentence(summary));
            lines.extend(confidence_sentence(summary));
            lines
        }
        Scores::Regression { rmse: Some(rmse), mae, .. } => {
            let mut lines = vec![error_sentence(summary, rmse, mae)];
            lines.extend(coverage_sentence(&run_levels(summary), &missed_levels(summary)));
            lines.extend(client_coverage_sentence(summary));
            lines
        }
        Scores::Classification { .. } | Scores::Regression { .. } => Vec::new(),
    }
}

/// What intervals are of, in words; nothing where there are none.
#[must_use]
pub fn interval_note(summary: &Summary) -> Option<&'static str> {
    Some(match summary.details.intervals_by? {
        ResampledUnit::Clients => "95% intervals by resampling clients",
        ResampledUnit::Rows => {
            "95% intervals by resampling rows within each client: fewer than 5 clients say nothing of others"
        }
    })
}

/// Over whom accuracy is a mean.
pub(crate) fn over_clients(summary: &Summary) -> String {
    let coverage = summary.coverage();
    let clients = if coverage.scored_clients == 1 { "client" } else { "clients" };
    if coverage.scored_clients < coverage.tested_clients {
        return format!("mean over the {} clients that were scored", coverage.scored_clients);
    }
    format!("mean over {} {clients}", coverage.scored_clients)
}

fn in_brackets(interval: Option<[f64; 2]>, words: impl Fn([f64; 2]) -> String) -> String {
    interval.map_or_else(String::new, |ends| format!(" (95% interval {})", words(ends)))
}

fn accuracy_sentence(summary: &Summary, accuracy: f64) -> String {
    let details = &summary.details;
    let interval = in_brackets(details.interval("accuracy"), percent_range);
    let mut text = format!("Accuracy {}{interval}, {}", percent(accuracy), over_clients(summary));
    let (Some(majority), Some(above)) = (details.majority_accuracy, details.interval("above_majority"))
    else {
        text.push('.');
        return text;
    };
    let baseline = format!("always answering a client's most frequent class ({})", percent(majority));
    text.push_str(&match above {
        [low, _] if low > 0.0 => format!(": better than {baseline}."),
        [_, high] if high < 0.0 => format!(": worse than {baseline}."),
        ends => format!(
            ". Not shown to be better than {baseline}: the difference is {} points (95% interval {}).",
            points(accuracy - majority),
            points_range(ends)
        ),
    });
    text
}

/// How mean confidence and accuracy compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confidence {
    Over,
    Under,
    Calibrated,
    /// On average, and yet ECE is more than chance gives.
    OnAverage,
    TooFew,
}

impl Confidence {
    /// By the interval of mean confidence less accuracy; `uneven` where ECE is above what chance gives.
    pub(crate) fn of([low, high]: [f64; 2], uneven: bool) -> Self {
        match (low, high) {
            _ if low > 0.0 => Self::Over,
            _ if high < 0.0 => Self::Under,
            _ if low < -CLOSE || high > CLOSE => Self::TooFew,
            _ if uneven => Self::OnAverage,
            _ => Self::Calibrated,
        }
    }

    /// In a word or two.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Over => "overconfident",
            Self::Under => "underconfident",
            Self::Calibrated => "calibrated",
            Self::OnAverage => "calibrated on average",
            Self::TooFew => "too few rows to say",
        }
    }

    /// As a sentence about this gap and its interval.
    pub(crate) fn sentence(self, gap: f64, ends: [f64; 2]) -> String {
        let is_slight = gap.abs() < SLIGHT;
        let range = points_range(ends);
        match self {
            Self::Over => format!(
                "{}verconfident: mean confidence minus accuracy is {} points (95% interval {range}).",
                if is_slight { "Slightly o" } else { "O" },
                points(gap)
            ),
            Self::Under => format!(
                "{}nderconfident: mean confidence minus accuracy is {} points (95% interval {range}).",
                if is_slight { "Slightly u" } else { "U" },
                points(gap)
            ),
            Self::Calibrated => {
                format!(
                    "Calibrated: mean confidence minus accuracy is {} points (95% interval {range}).",
                    points(gap)
                )
            }
            Self::OnAverage => format!(
                "Calibrated on average (mean confidence minus accuracy {} points, 95% interval {range}), but not at every \
                 confidence.",
                points(gap)
            ),
            Self::TooFew => format!(
                "Too few test rows to say whether it is calibrated: mean confidence minus accuracy is {} points, and its \
                 95% interval {range}.",
                points(gap)
            ),
        }
    }
}

/// Whether an ECE is above what chance gives a calibrated model, and by enough to matter.
pub(crate) fn is_uneven(ece: Option<f64>, floor: Option<f64>, deviation: Option<f64>) -> bool {
    match (ece, floor, deviation) {
        (Some(ece), Some(floor), Some(deviation)) => ece > SLIGHT && ece > floor + 2.0 * deviation,
        _ => false,
    }
}

/// Mean confidence less accuracy over all test rows: the middle of what its interval was found around.
pub(crate) fn confidence_gap(summary: &Summary) -> Option<(Confidence, f64, [f64; 2])> {
    let Scores::Classification { ece, ece_floor, ece_floor_std, .. } = summary.scores else { return None };
    let ends = summary.details.interval("overconfidence")?;
    let gap = summary.details.overconfidence?;
    Some((Confidence::of(ends, is_uneven(ece, ece_floor, ece_floor_std)), gap, ends))
}

fn confidence_sentence(summary: &Summary) -> Option<String> {
    let (found, gap, ends) = confidence_gap(summary)?;
    Some(found.sentence(gap, ends))
}

/// Classes that are recognised less often than the others, by their interval: rare ones, and others where it is less than
/// half as often.
fn missed_classes(summary: &Summary) -> Vec<&ClassScores> {
    let rows: usize = summary.classes.iter().map(|class| class.samples).sum();
    let found = |class: &ClassScores| class.recall.map_or(0.0, |recall| recall * class.samples as f64);
    let right: f64 = summary.classes.iter().map(found).sum();
    let pooled = right / rows.max(1) as f64;
    let is_missed = |class: &&ClassScores| {
        let is_rare = (class.samples as f64) < RARE * rows as f64;
        let enough = if is_rare { pooled } else { 0.5 * pooled };
        class.samples > 0 && class.recall_interval.is_some_and(|[_, high]| high < enough)
    };
    // With many classes all are rare, and the table shows them.
    if summary.classes.len() > 9 {
        return Vec::new();
    }
    let mut all: Vec<&ClassScores> = summary.classes.iter().filter(is_missed).collect();
    all.sort_by(|a, b| a.recall.unwrap_or(0.0).total_cmp(&b.recall.unwrap_or(0.0)));
    all.truncate(MAX_MISSED);
    all
}

fn missed_sentence(summary: &Summary) -> Option<String> {
    let rows: usize = summary.classes.iter().map(|class| class.samples).sum();
    let words = |class: &&ClassScores| {
        format!(
            "{} ({} of test rows): recall {}{}",
            fedsi_data::display_name(&class.name),
            percent(class.samples as f64 / rows.max(1) as f64),
            class.recall.map_or_else(String::new, percent),
            in_brackets(class.recall_interval, percent_range)
        )
    };
    let missed: Vec<String> = missed_classes(summary).iter().map(words).collect();
    let plural = if missed.len() == 1 { "A class is" } else { "Classes are" };
    (!missed.is_empty())
        .then(|| format!("{plural} recognised less often than the rest: {}.", missed.join("; ")))
}

fn error_sentence(summary: &Summary, rmse: f64, mae: Option<f64>) -> String {
    let with = |name: &str, key: &str, value: f64| {
        let digits = digits_for(value);
        let interval = in_brackets(summary.details.interval(key), |ends| number_range(ends, digits));
        format!("{name} {value:.digits$}{interval}")
    };
    let mae = mae.map_or_else(String::new, |mae| format!(", {}", with("MAE", "mae", mae)));
    format!("{}{mae}; all test rows, in the data's unit.", with("RMSE", "rmse", rmse))
}

/// A coverage of intervals beside what it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelFound {
    /// What should be inside.
    pub(crate) level: f64,
    /// What is.
    pub(crate) share: f64,
    /// Wilson's 95% interval.
    pub(crate) interval: [f64; 2],
    /// Of the exact binomial test; not corrected.
    pub(crate) p: f64,
}

/// The coverages of these scores over so many rows.
pub(crate) fn levels(scores: &Scores, samples: usize) -> Vec<LevelFound> {
    let Scores::Regression { coverage_50, coverage_80, coverage_90, coverage_95, .. } = scores else {
        return Vec::new();
    };
    let of = |(level, share): (f64, &Option<f64>)| {
        let share = share.filter(|share| (0.0..=1.0).contains(share))?;
        // Outputs of one row are not independent: as many trials as rows.
        let inside = ((share * samples as f64).round() as usize).min(samples);
        Some(LevelFound {
            level,
            share,
            interval: wilson(inside, samples)?,
            p: binomial_test(inside, samples, level),
        })
    };
    LEVELS.into_iter().zip([coverage_50, coverage_80, coverage_90, coverage_95]).filter_map(of).collect()
}

/// Levels that are missed beyond chance: by the binomial test after Holm's correction for how many there are.
pub(crate) fn beyond_chance(found: Vec<LevelFound>) -> Vec<LevelFound> {
    let corrected = holm(&found.iter().map(|one| one.p).collect::<Vec<_>>());
    found.into_iter().zip(corrected).filter(|(_, p)| *p < LEVEL).map(|(one, _)| one).collect()
}

/// The coverages of a run, with the intervals that resampling gives where there are any.
pub(crate) fn run_levels(summary: &Summary) -> Vec<LevelFound> {
    let mut found = levels(&summary.scores, scored_rows(summary));
    for one in &mut found {
        let name = format!("coverage_{:.0}", 100.0 * one.level);
        one.interval = summary.details.interval(&name).unwrap_or(one.interval);
    }
    found
}

/// Those that a run misses: beyond chance, and outside of their intervals.
fn missed_levels(summary: &Summary) -> Vec<LevelFound> {
    let mut missed = beyond_chance(run_levels(summary));
    missed.retain(|one| one.level < one.interval[0] || one.level > one.interval[1]);
    missed
}

/// Test rows of the clients that were scored.
pub(crate) fn scored_rows(summary: &Summary) -> usize {
    summary.clients.iter().filter(|client| client.scores.is_scored()).map(|client| client.samples).sum()
}

/// What the coverages come to, those that are missed beyond chance among them.
pub(crate) fn coverage_sentence(found: &[LevelFound], missed: &[LevelFound]) -> Option<String> {
    if found.is_empty() {
        return None;
    }
    let words = |one: &LevelFound| {
        format!(
            "those of {:.0}% hold {} (95% interval {})",
            100.0 * one.level,
            percent(one.share),
            percent_range(one.interval)
        )
    };
    let narrow = missed.iter().filter(|one| one.share < one.level).count();
    let verdict = match (missed.len(), narrow) {
        (0, _) if found.iter().any(|one| one.interval[1] - one.interval[0] > 2.0 * CLOSE) => {
            let ninety = found.iter().find(|one| one.level == 0.9).map_or_else(String::new, words);
            return Some(format!("Too few test rows to say whether its intervals are calibrated: {ninety}."));
        }
        (0, _) => "Its intervals at 50, 80, 90 and 95% hold what they should, as far as chance lets one tell",
        (all, narrow) if all == narrow => "Its intervals are too narrow (overconfident)",
        (_, 0) => "Its intervals are too wide (underconfident)",
        _ => "Its intervals do not hold what they should",
    };
    let shown = if missed.is_empty() { found } else { missed };
    let shown: Vec<String> = shown.iter().map(words).collect();
    Some(format!("{verdict}: {}.", list(&shown)))
}

/// Clients whose intervals do not hold what they should, all levels of all clients corrected together; each is named for
/// its surest level. Nothing where there are none, or one client alone.
fn client_coverage_sentence(summary: &Summary) -> Option<String> {
    let scored: Vec<&ClientScores> =
        summary.clients.iter().filter(|client| client.scores.is_scored()).collect();
    let tests: Vec<(&ClientScores, LevelFound)> = scored
        .iter()
        .flat_map(|client| levels(&client.scores, client.samples).into_iter().map(|found| (*client, found)))
        .collect();
    let corrected = holm(&tests.iter().map(|(_, found)| found.p).collect::<Vec<_>>());
    let mut missed: Vec<(f64, &ClientScores, LevelFound)> = corrected
        .into_iter()
        .zip(tests)
        .filter(|(p, _)| *p < LEVEL)
        .map(|(p, (client, one))| (p, client, one))
        .collect();
    missed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.id.cmp(&b.1.id)));
    let mut seen = Vec::new();
    missed.retain(|(_, client, _)| {
        let is_new = !seen.contains(&client.id);
        seen.push(client.id);
        is_new
    });
    if missed.is_empty() || scored.len() < 2 {
        return None;
    }
    let words = |(_, client, found): &(f64, &ClientScores, LevelFound)| {
        let (level, share) = (100.0 * found.level, percent(found.share));
        format!("{} (those of {level:.0}% hold {share} of {} rows)", client.label(), client.samples)
    };
    let mut named: Vec<String> = missed.iter().take(MAX_MISSED).map(words).collect();
    if missed.len() > MAX_MISSED {
        named.push(format!("{} more", missed.len() - MAX_MISSED));
    }
    Some(format!(
        "Taken alone, {} of {} clients have intervals that do not hold what they should: {}.",
        missed.len(),
        scored.len(),
        list(&named)
    ))
}

#[cfg(test)]
mod tests;
