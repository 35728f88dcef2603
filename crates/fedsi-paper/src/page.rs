//! The README of an experiment's folder: the question, what came out, the setting, the command, the differences from the
//! paper. Everything in it follows from the plan and the runs.

use std::fmt::Write as _;

use crate::cells::SettingCells;
use crate::entry::Source;
use crate::experiment::{Experiment, Form};
use crate::figures::Figure;
use crate::page_setting::{how_to_reproduce, setting};
use crate::plan::Plan;
use crate::published::NOT_COMPARABLE;
use crate::setting::Partition;
use crate::tables::{MARKS, bins_table, calibration_table, difference_table, published_table, score_table};
use crate::text::{TextTable, score_title};
use crate::verdict::{
    left_out, on_common_seeds, over_own_classes, strange_verdicts, variation_values, variation_verdicts,
    verdict,
};

/// A table with its file's name and heading.
#[derive(Clone, Debug)]
pub struct NamedTable {
    /// The file's name without an ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The table.
    pub table: TextTable,
}

/// The tables that an experiment is written down as.
#[must_use]
pub fn tables(plan: &Plan, all: &[SettingCells<'_>]) -> Vec<NamedTable> {
    let named = |name: &str, title: String, table| NamedTable { name: name.to_owned(), title, table };
    let by_score =
        |score: &&str| named(score, format!("{} by method", score_title(score)), score_table(all, score));
    let of_setting =
        |cells: &SettingCells<'_>| named(&cells.setting.id, cells.setting.label(), calibration_table(cells));
    match plan.experiment {
        Experiment::Table1 | Experiment::Fig3 | Experiment::Fig5 | Experiment::Fig6 => {
            plan.experiment.scores().iter().map(by_score).collect()
        }
        Experiment::Table2 => all.iter().filter(|cells| !cells.is_empty()).map(of_setting).collect(),
        Experiment::Fig4 => {
            let bins = |(id, title): (&str, &str)| {
                named(
                    &format!("bins-{id}"),
                    format!("Bins of {title}, all seeds together"),
                    bins_table(all, id),
                )
            };
            let ece = named("ece", "ECE by method".to_owned(), score_table(all, "ece"));
            let both = [("fedsi", "FedSI (calibrated)"), ("fedsi-paper", "FedSI (paper)")].map(bins);
            std::iter::once(ece).chain(both).collect()
        }
    }
}

/// The page. `failures` are runs that were tried last and failed; `command` makes everything again.
#[must_use]
pub fn page(
    plan: &Plan,
    all: &[SettingCells<'_>],
    figures: &[Figure],
    failures: &[String],
    command: &str,
) -> String {
    let experiment = plan.experiment;
    let partition = match plan.partition {
        Partition::Labels => String::new(),
        other => format!(" ({})", other.id()),
    };
    let mut text = format!("# {}{partition}\n\n{}\n", experiment.title(), experiment.question());
    if plan.form != Form::Full {
        text.push_str(
            "\nThis is the quick form, for a look: few rounds and seeds. Nothing can be concluded from it.\n",
        );
    }
    if plan.partition != Partition::Labels {
        let _ = write!(text, "\nPartition: {}.\n", plan.partition.about());
    }
    text.push_str("\n## What came out\n\n");
    text.push_str(&answers(plan, all));
    for failure in failures {
        let _ = writeln!(text, "- Failed: {failure}");
    }
    for figure in figures {
        // Every value is in the table, and in the file for those who do not see it.
        let _ = write!(text, "\n![{}]({})\n", figure.title, figure.file);
    }
    let is_left_out = |cells: &SettingCells<'_>| {
        (0..cells.rows.len()).any(|row| cells.has_runs(row) && !cells.is_drawn(row))
    };
    if all.iter().any(is_left_out) {
        text.push_str("\nDrawn are the rows with as many rounds as FedSI (calibrated), where there are several; the table has all.\n");
    }
    text.push_str("\n## Results\n\n");
    text.push_str(MARKS);
    text.push('\n');
    for named in tables(plan, all) {
        let _ = write!(text, "\n### {}\n\n{}", named.title, named.table.markdown());
    }
    text.push_str(&notes(plan));
    text.push_str(&tests(plan, all));
    text.push_str(&beside_the_paper(plan, all));
    text.push_str(&setting(plan, all));
    text.push_str(&how_to_reproduce(plan, all, command));
    text
}

/// Lines for each setting: a verdict for each score, and what they leave out.
fn answers(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let mut text = variation_answers(plan, all);
    // Two profiles of one method are not to be ranked.
    let has_rivals = plan.experiment != Experiment::Fig3;
    let scores = plan.experiment.scores();
    let label = |cells: &SettingCells<'_>| cells.setting.label();
    for cells in all.iter().filter(|cells| has_rivals && !cells.is_empty()) {
        let found = |score: &&str| Some(format!("{}: {}", score_title(score), verdict(cells, score)?));
        let lines: Vec<String> = scores.iter().filter_map(found).collect();
        if lines.is_empty() {
            let _ = writeln!(text, "- **{}**: FedSI (calibrated) has not been run yet", label(cells));
            continue;
        }
        let rounds = cells.rows_by_rounds().map(|rounds| format!(", {rounds}")).unwrap_or_default();
        let _ = writeln!(text, "- **{}**{rounds}", label(cells));
        let first = scores.first();
        let common = first.and_then(|score| on_common_seeds(cells, score));
        let left_out = first.and_then(|score| left_out(cells, score));
        let strange = match plan.experiment {
            Experiment::Table2 => strange_verdicts(cells),
            _ => Vec::new(),
        };
        let own_classes: Vec<String> =
            scores.iter().filter_map(|score| over_own_classes(cells, score)).collect();
        for line in lines.iter().chain(&strange).chain(&own_classes).chain(&common).chain(&left_out) {
            let _ = writeln!(text, "  - {line}");
        }
    }
    let missing: Vec<String> = all.iter().filter(|cells| cells.is_empty()).map(label).collect();
    if !missing.is_empty() {
        let _ = writeln!(text, "- Not run yet: {}", missing.join("; "));
    }
    text
}

/// What changes with what is varied, where something is.
fn variation_answers(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let mut text = String::new();
    if matches!(plan.experiment, Experiment::Fig3 | Experiment::Fig6) {
        for score in plan.experiment.scores() {
            for line in variation_values(all, score).into_iter().chain(variation_verdicts(all, score)) {
                let _ = writeln!(text, "- {}: {line}", score_title(score));
            }
        }
    }
    text
}

/// What "own classes" means, under the partition at hand.
const fn own_classes_note(plan: &Plan) -> &'static str {
    match (plan.partition, plan.experiment) {
        (Partition::Dirichlet01 | Partition::Dirichlet05, _) => {
            " \"Own classes\": a client gives probabilities only to the classes that it has training samples of (`calibration.own_classes`). Under this \
             partition a few test samples are of other classes, and each costs such a row the largest loss there is (a probability of 1e-12)."
        }
        (_, Experiment::Fig5) => {
            " \"FedAvg (own classes)\": the novel client tunes the head, as FedAvg's does here, and gives probabilities only to the classes that it has training \
             samples of (`calibration.own_classes`); no test sample of it has another one."
        }
        _ => {
            " \"Own classes\": a client gives probabilities only to the classes that it has training samples of (`calibration.own_classes`); no test sample of it \
             has another one. In \"FedAvg (own classes)\" that is all that is personal: the simplest rival, which became a row after its results on seed 101 had been seen. \
             In a federation where a new class may turn up at a client it is an error by construction."
        }
    }
}

/// What columns mean that not everybody knows.
fn notes(plan: &Plan) -> String {
    let mut text = String::from(
        "\nFedSI has two profiles: *calibrated*, the defaults of this project (weight noise and, from 400 rounds on, a mixture of \
         networks), and *paper*, the paper's settings.",
    );
    if plan.entries.iter().any(|entry| entry.source == Source::WeightNoise) {
        text.push_str(
            " \"FedBABU + noise\" is the strongest point method of our earlier comparisons: FedBABU with FedSI's weight noise and a \
             temperature.",
        );
    }
    if plan.entries.iter().any(|entry| entry.source == Source::Short) {
        text.push_str(
            " \"FedBABU (1/4 rounds)\" is trained for a quarter of the rounds, with what the search chose at 200 rounds: most point methods are past \
             their best at 800, and this was the nearest rival on five of the ten seeds before it became a row.",
        );
    }
    if plan.entries.iter().any(|entry| entry.source == Source::Pooled) {
        text.push_str(
            " \"All data pooled\" is one network trained on everybody's data in one place, with a temperature and weight noise of at most \
             0.1, for an eighth of the rounds: it knows all ten classes, not its client's, and is scored as one client.",
        );
    }
    if plan.entries.iter().any(|entry| entry.source == Source::PooledOwnClasses) {
        text.push_str(
            " \"All data pooled (own classes)\" is the same training, after which each client tunes the whole network on its own data for ten epochs: \
             what a client could have if data were not kept apart. Its temperature is that of the network of all classes, which the pooled data chose: read its \
             accuracy, not its probabilities. Both are references and not ranked; their settings were not searched, so that neither is a bound.",
        );
    }
    if plan.entries.iter().any(|entry| entry.source == Source::OwnClasses) {
        text.push_str(own_classes_note(plan));
    }
    if plan.experiment == Experiment::Fig4 {
        text.push_str(
            " Bins hold the predictions of all seeds together, while an ECE is the mean over seeds, whose gaps may cancel in the bins.",
        );
    }
    if plan.experiment == Experiment::Table2 {
        text.push_str(
            " A floor is what a perfectly calibrated model with the same confidences would score by chance. AURC is the mean error \
             rate over all coverages when the least confident predictions are declined first. AUROC: how well the entropy of \
             predictions, and strangeness (how far features lie from those of the training data: [strangeness](../../docs/strangeness.md)), \
             tell other inputs from a client's own test samples (1: always, 0.5: never); its tests above are paired over seeds, each by itself, \
             without a correction.",
        );
    }
    text.push('\n');
    text
}

fn tests(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let scores = plan.experiment.scores();
    let mut text = String::from(
        "\n## Tests\n\nFedSI (calibrated), which was named as the reference beforehand, minus each method: paired over seeds, each of \
         which deals the images to clients and draws networks anew; Student's 95% interval and t-test over seeds. p is corrected by Holm for the \
         methods tested by a score, intervals are not; nothing is corrected over scores and datasets. Beside it the bootstrap over \
         seeds and clients within them (accuracy, Brier, NLL), as a check: where the two disagree on whether 0 is excluded, no \
         difference is called significant. With fewer than five seeds there is no test ([statistics](../../docs/statistics.md)).\n",
    );
    let mut untested: Vec<String> = Vec::new();
    for cells in all.iter().filter(|cells| !cells.is_empty()) {
        let Some(table) = difference_table(cells, scores) else {
            untested.push(cells.setting.label());
            continue;
        };
        let _ = write!(
            text,
            "\n<details><summary>{}</summary>\n\n{}\n</details>\n",
            cells.setting.label(),
            table.markdown()
        );
    }
    if !untested.is_empty() {
        let _ = writeln!(text, "\nNothing is tested on: {}.", untested.join("; "));
    }
    text
}

fn beside_the_paper(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let scores: &[&str] = match plan.experiment {
        Experiment::Table1 => &["accuracy"],
        Experiment::Table2 => &["ece", "mce", "brier"],
        Experiment::Fig4 => &["ece"],
        Experiment::Fig3 | Experiment::Fig5 | Experiment::Fig6 => &[],
    };
    let mut text = String::from("\n## Beside the paper\n\n");
    if plan.partition != Partition::Labels || plan.form != Form::Full {
        let what = if plan.form == Form::Full { "partition" } else { "short form" };
        let _ = writeln!(text, "The paper has no such {what}: nothing to put beside it.");
        return text;
    }
    if scores.is_empty() {
        text.push_str(
            "The paper's figure prints no numeric values that could stand beside ours. What it concludes from it, and whether that holds \
             here: [docs/reproduction.md](../../docs/reproduction.md#what-holds-and-what-does-not).\n",
        );
        return text;
    }
    let _ = writeln!(text, "{NOT_COMPARABLE} More in [docs/reproduction.md](../../docs/reproduction.md).");
    // A table for all settings where there is one score, else one for each.
    let groups = all.chunks(if scores.len() == 1 { all.len().max(1) } else { 1 });
    for table in groups.filter_map(|group| published_table(group, scores)) {
        let _ = write!(text, "\n{}", table.markdown());
    }
    text
}
