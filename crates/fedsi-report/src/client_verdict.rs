//! What each client's predictions allow to say, and which clients differ from the rest by more than chance.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_metrics::{
    binomial_test, confidence_test, fisher_test, holm, most_frequent, normal_p, rank_tests, wilson,
};
use fedsi_run::ClientScores;

use crate::RunFiles;
use crate::format::counted;
use crate::run_verdict::{
    Confidence, LEVEL, LevelFound, beyond_chance, coverage_sentence, is_uneven, levels,
};
use crate::tile::Tile;
use crate::words::{digits_for, list, percent, percent_range, points, points_range};

/// With fewer test rows a client is too small to be told from the rest.
pub(crate) const FEWEST_ROWS: usize = 20;

/// Clients named for each reason.
const MAX_NAMED: usize = 5;

/// What the top of the page says while a client is shown.
pub(crate) struct ClientVerdict {
    pub(crate) lines: Vec<String>,
    pub(crate) tiles: Vec<Tile>,
}

/// A client that differs from the rest, and in what.
pub(crate) struct FlaggedClient {
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// What was found client by client.
#[derive(Default)]
pub(crate) struct ClientFindings {
    /// Of the clients that the page lists.
    pub(crate) verdicts: BTreeMap<usize, ClientVerdict>,
    /// Those that differ from the rest by more than chance.
    pub(crate) flagged: Vec<FlaggedClient>,
    /// Clients that were compared with the rest.
    pub(crate) compared: usize,
    /// Those with too few test rows for that.
    pub(crate) too_few: Vec<String>,
}

/// The rows of each client, as they come.
pub(crate) fn rows_of(owners: &[usize]) -> Vec<(usize, Range<usize>)> {
    let spans = owners.chunk_by(|a, b| a == b).scan(0, |start, run| {
        let from = *start;
        *start += run.len();
        Some((run[0], from..*start))
    });
    spans.collect()
}

impl ClientFindings {
    /// Of a run, with verdicts on the clients that are `listed` (numbers, ascending).
    pub(crate) fn of(files: &RunFiles, listed: &[usize]) -> Self {
        let clients: BTreeMap<usize, &ClientScores> =
            files.summary.clients.iter().map(|client| (client.id, client)).collect();
        let spans: Vec<(&ClientScores, Range<usize>)> = rows_of(&files.owners)
            .into_iter()
            .filter_map(|(id, rows)| Some((*clients.get(&id)?, rows)))
            .filter(|(client, _)| client.scores.is_scored())
            .collect();
        let (compared, small): (Vec<_>, Vec<_>) =
            spans.iter().partition(|(_, rows)| rows.len() >= FEWEST_ROWS && spans.len() > 1);
        let mut found = Self {
            compared: compared.len(),
            too_few: if spans.len() > 1 {
                small.iter().map(|(client, _)| client.label()).collect()
            } else {
                Vec::new()
            },
            ..Self::default()
        };
        let wanted = |client: &ClientScores| listed.binary_search(&client.id).is_ok();
        match &files.predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let Ok(rows) = fedsi_metrics::Predictions::new(probabilities, labels, *classes) else {
                    return found;
                };
                let answers: Vec<(usize, f64, bool)> =
                    rows.rows().map(|row| (row.label(), row.confidence(), row.is_correct())).collect();
                found.flagged = differing_classes(&compared, &answers);
                for (client, rows) in spans.iter().filter(|(client, _)| wanted(client)) {
                    let training = files.report_data.as_ref().and_then(|found| found.train.get(client.id));
                    let verdict = of_classes(client, &answers[rows.clone()], training);
                    found.verdicts.insert(client.id, verdict);
                }
            }
            Predictions::Values { outputs, mean, targets, .. } => {
                let errors: Vec<f64> = mean
                    .chunks_exact((*outputs).max(1))
                    .zip(targets.chunks_exact((*outputs).max(1)))
                    .map(|(mean, targets)| mean.iter().zip(targets).map(|(m, t)| (t - m).abs()).sum())
                    .collect();
                found.flagged = differing_values(&compared, &errors);
                for (client, _) in spans.iter().filter(|(client, _)| wanted(client)) {
                    found.verdicts.insert(client.id, of_values(client));
                }
            }
        }
        found
    }

    /// One sentence about those that are too small.
    pub(crate) fn too_few_sentence(&self) -> Option<String> {
        if self.too_few.is_empty() {
            return None;
        }
        let count = self.too_few.len();
        if count > MAX_NAMED {
            return Some(format!(
                "Too few test rows to say (fewer than {FEWEST_ROWS}): {} clients.",
                crate::format::grouped(count as f64)
            ));
        }
        let plural = if count == 1 { "client" } else { "clients" };
        Some(format!(
            "Too few test rows to say (fewer than {FEWEST_ROWS}): {plural} {}.",
            list(&self.too_few)
        ))
    }
}

/// One test a client: its corrected p decides, the surest findings come first.
struct Tested<'a> {
    client: &'a ClientScores,
    p: f64,
    /// Whether it is worth naming: worse than the rest, or off from what it says.
    worse: bool,
    reason: String,
}

/// Clients by tests of one kind, corrected for how many there are.
fn beyond_chance_clients(tests: Vec<Tested<'_>>) -> Vec<FlaggedClient> {
    let corrected = holm(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
    let mut found: Vec<(f64, Tested<'_>)> = corrected.into_iter().zip(tests).collect();
    found.retain(|(p, test)| *p < LEVEL && test.worse);
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.client.id.cmp(&b.1.client.id)));
    // A client that several tests find is named once, for the surest.
    let mut seen = BTreeSet::new();
    found.retain(|(_, test)| seen.insert(test.client.id));
    let more = found.len().saturating_sub(MAX_NAMED);
    let last = found.len().min(MAX_NAMED);
    let flagged = found.into_iter().take(MAX_NAMED).enumerate().map(|(place, (_, test))| {
        let more = if more > 0 && place + 1 == last {
            format!("; {more} more clients likewise")
        } else {
            String::new()
        };
        FlaggedClient {
            id: test.client.id,
            name: test.client.label(),
            reason: format!("{}{more}", test.reason),
        }
    });
    flagged.collect()
}

type Spans<'a, 'b> = [&'b (&'a ClientScores, Range<usize>)];

/// Clients that are right less often than the others, and those whose confidence is not what comes true.
fn differing_classes(spans: &Spans<'_, '_>, answers: &[(usize, f64, bool)]) -> Vec<FlaggedClient> {
    let right = |rows: &Range<usize>| answers[rows.clone()].iter().filter(|(.., right)| *right).count();
    let (all, all_right) = (answers.len(), answers.iter().filter(|(.., right)| *right).count());
    let by_accuracy = spans.iter().map(|(client, rows)| {
        let (own, own_right) = (rows.len(), right(rows));
        let (others, others_right) = (all - own, all_right - own_right);
        let (share, other) = (own_right as f64 / own as f64, others_right as f64 / others.max(1) as f64);
        let interval = wilson(own_right, own).map_or_else(String::new, percent_range);
        Tested {
            client,
            p: fisher_test((own_right, own), (others_right, others)),
            worse: share < other,
            reason: format!(
                "right less often than the others: {} of {} ({interval}), the others {}",
                percent(share),
                counted(own, "test row"),
                percent(other)
            ),
        }
    });
    // Right answers less confidences: their sum and their squares, over all rows.
    let gap = |&(_, confidence, right): &(usize, f64, bool)| confidence - f64::from(u8::from(right));
    let sums = |rows: &[(usize, f64, bool)]| {
        rows.iter().map(gap).fold((0.0, 0.0), |(sum, squares), gap| (sum + gap, squares + gap * gap))
    };
    let whole = sums(answers);
    let by_confidence = spans.iter().map(|(client, rows)| {
        let confidences: Vec<f64> =
            answers[rows.clone()].iter().map(|(_, confidence, _)| *confidence).collect();
        let own_right = right(rows);
        let mean = confidences.iter().sum::<f64>() / confidences.len().max(1) as f64;
        let share = own_right as f64 / rows.len() as f64;
        // Off from what it says, and not just as the others are: both must hold.
        let differs = welch_p(sums(&answers[rows.clone()]), rows.len(), whole, all);
        Tested {
            client,
            p: confidence_test(&confidences, own_right).max(differs),
            worse: true,
            reason: format!(
                "{}: mean confidence {}, accuracy {} ({}), {}",
                if mean > share { "overconfident" } else { "underconfident" },
                percent(mean),
                percent(share),
                wilson(own_right, rows.len()).map_or_else(String::new, percent_range),
                counted(rows.len(), "test row"),
            ),
        }
    });
    let mut flagged = beyond_chance_clients(by_accuracy.collect());
    flagged.extend(beyond_chance_clients(by_confidence.collect()));
    flagged
}

/// How likely two means differ so much by chance, each from a sum, a sum of squares and a count: of some rows, and of all
/// the others. Normal, as rows are many.
fn welch_p(own: (f64, f64), rows: usize, whole: (f64, f64), all: usize) -> f64 {
    let (n, m) = (rows as f64, all.saturating_sub(rows) as f64);
    if n < 2.0 || m < 2.0 {
        return 1.0;
    }
    let rest = (whole.0 - own.0, whole.1 - own.1);
    let error = |(sum, squares): (f64, f64), count: f64| {
        let mean = sum / count;
        (squares / count - mean * mean).max(0.0) / (count - 1.0)
    };
    let deviation = (error(own, n) + error(rest, m)).sqrt();
    let distance = (own.0 / n - rest.0 / m).abs();
    if deviation > 0.0 { normal_p(distance / deviation) } else { f64::from(u8::from(distance <= 0.0)) }
}

/// Clients with larger errors than the others, and those whose intervals do not hold what they should.
fn differing_values(spans: &Spans<'_, '_>, errors: &[f64]) -> Vec<FlaggedClient> {
    let groups: Vec<Range<usize>> = spans.iter().map(|(_, rows)| rows.clone()).collect();
    let ranked = rank_tests(errors, &groups).unwrap_or_default();
    let by_error = spans.iter().zip(ranked).filter_map(|((client, rows), found)| {
        let found = found?;
        let Scores::Regression { rmse: Some(rmse), .. } = client.scores else { return None };
        let digits = digits_for(rmse);
        let reason = format!(
            "larger errors than the others: RMSE {rmse:.digits$} over {}",
            counted(rows.len(), "test row")
        );
        Some(Tested { client, p: found.p, worse: found.larger > 0.5, reason })
    });
    // How many are inside over all clients, by level.
    let inside = |found: &LevelFound, rows: usize| ((found.share * rows as f64).round() as usize).min(rows);
    let mut whole = [(0, 0); 4];
    for (client, rows) in spans {
        for (sum, found) in whole.iter_mut().zip(levels(&client.scores, rows.len())) {
            *sum = (sum.0 + inside(&found, rows.len()), sum.1 + rows.len());
        }
    }
    // All levels of all clients are corrected together; a client is named once, for its surest level.
    let mut by_level: Vec<Tested<'_>> = Vec::new();
    for (client, rows) in spans {
        for (found, (covered, all)) in levels(&client.scores, rows.len()).into_iter().zip(whole) {
            let own = (inside(&found, rows.len()), rows.len());
            // Off from its level, and not just as the others are: both must hold.
            let differs = fisher_test(own, (covered - own.0, all - own.1));
            let reason = level_reason(&found, rows.len());
            by_level.push(Tested { client, p: found.p.max(differs), worse: true, reason });
        }
    }
    let mut flagged = beyond_chance_clients(by_error.collect());
    flagged.extend(beyond_chance_clients(by_level));
    flagged
}

fn level_reason(found: &LevelFound, rows: usize) -> String {
    format!(
        "its {:.0}% intervals hold {} of {} ({}): too {}",
        100.0 * found.level,
        percent(found.share),
        counted(rows, "test row"),
        percent_range(found.interval),
        if found.share < found.level { "narrow" } else { "wide" }
    )
}

fn tile(name: &str, value: String, note: String) -> Tile {
    Tile { name: name.to_owned(), value, note }
}

/// One client's answers: their classes, confidences, and whether each is right.
fn of_classes(
    client: &ClientScores,
    answers: &[(usize, f64, bool)],
    training: Option<&Vec<usize>>,
) -> ClientVerdict {
    let rows = answers.len();
    let right = answers.iter().filter(|(.., right)| *right).count();
    let share = right as f64 / rows.max(1) as f64;
    let [low, high] = wilson(right, rows).unwrap_or([0.0, 1.0]);
    let mean = answers.iter().map(|(_, confidence, _)| *confidence).sum::<f64>() / rows.max(1) as f64;
    let (gap, ends) = (mean - share, [mean - high, mean - low]);
    let Scores::Classification { ece, ece_floor, ece_floor_std, .. } = client.scores else {
        return ClientVerdict { lines: Vec::new(), tiles: Vec::new() };
    };
    let found = Confidence::of(ends, is_uneven(ece, ece_floor, ece_floor_std));
    let mut accuracy = format!(
        "Client {}: accuracy {} (95% interval {}), {right} of {} right",
        client.label(),
        percent(share),
        percent_range([low, high]),
        counted(rows, "test row")
    );
    let mut tiles = vec![
        tile(
            "accuracy",
            percent(share),
            format!("{right} of {rows}; 95% interval {}", percent_range([low, high])),
        ),
        tile(
            "confidence minus accuracy",
            points(gap),
            format!("points: {}; 95% interval {}", found.word(), points_range(ends)),
        ),
    ];
    if let Some(ece) = ece {
        let floor = ece_floor.map_or_else(String::new, |floor| format!("; {floor:.3} by chance alone"));
        tiles.push(tile("calibration error", format!("{ece:.3}"), format!("ECE{floor}")));
    }
    if let Some(class) = training.and_then(|counts| most_frequent(counts.iter().copied())) {
        let baseline = answers.iter().filter(|(label, ..)| *label == class).count();
        // Rows that one of the two gets right and the other wrong.
        let gained = answers.iter().filter(|(label, _, right)| *right && *label != class).count();
        let lost = answers.iter().filter(|(label, _, right)| !*right && *label == class).count();
        let differs = binomial_test(gained, gained + lost, 0.5) < LEVEL;
        let words = match (differs, gained > lost) {
            (true, true) => "better than",
            (true, false) => "worse than",
            (false, _) => "not shown to be better than",
        };
        let share = percent(baseline as f64 / rows.max(1) as f64);
        accuracy.push_str(&format!("; {words} always answering its most frequent class ({share})"));
        tiles.push(tile("its most frequent class", share, "accuracy of always answering it".to_owned()));
    }
    accuracy.push('.');
    ClientVerdict { lines: vec![accuracy, found.sentence(gap, ends)], tiles }
}

fn of_values(client: &ClientScores) -> ClientVerdict {
    let Scores::Regression { rmse: Some(rmse), mae: Some(mae), nll: Some(nll), .. } = client.scores else {
        return ClientVerdict { lines: Vec::new(), tiles: Vec::new() };
    };
    let digits = digits_for(rmse);
    let found = levels(&client.scores, client.samples);
    let missed = beyond_chance(found.clone());
    let mut lines = vec![format!(
        "Client {}: RMSE {rmse:.digits$}, MAE {mae:.digits$} over {}.",
        client.label(),
        counted(client.samples, "test row")
    )];
    lines.extend(coverage_sentence(&found, &missed));
    let mut tiles = vec![
        tile(
            "RMSE",
            format!("{rmse:.digits$}"),
            "root of the mean squared error, in the data's unit".to_owned(),
        ),
        tile("MAE", format!("{mae:.digits$}"), "mean absolute error, in the data's unit".to_owned()),
    ];
    if let Some(ninety) = found.iter().find(|one| one.level == 0.9) {
        tiles.push(tile(
            "inside the 90% interval",
            percent(ninety.share),
            format!("95% interval {}; 90% is perfect", percent_range(ninety.interval)),
        ));
    }
    tiles.push(tile("NLL", format!("{nll:.3}"), "negative log likelihood, lower is better".to_owned()));
    ClientVerdict { lines, tiles }
}

#[cfg(test)]
mod tests;
