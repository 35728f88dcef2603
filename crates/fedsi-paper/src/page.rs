//! The README of an experiment's folder: the question, what came out, the setting, the command, the differences from the
//! paper. Everything in it follows from the plan and the runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cells::SettingCells;
use crate::entry::Source;
use crate::experiment::{Experiment, Form};
use crate::figures::Figure;
use crate::plan::Plan;
use crate::published::NOT_COMPARABLE;
use crate::setting::Partition;
use crate::tables::{MARKS, bins_table, calibration_table, difference_table, published_table, score_table};
use crate::text::{TextTable, score_title};
use crate::tuned;
use crate::verdict::{left_out, variation_values, variation_verdicts, verdict};

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
    let mut text = format!("# {}\n\n{}\n", experiment.title(), experiment.question());
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
        let _ = write!(text, "\n![{}]({})\n", experiment.title(), figure.file);
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
    text.push_str(&protocol(plan, all));
    text.push_str(&again(plan, all, command));
    text
}

/// A line for each setting and score.
fn answers(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let mut text = variation_answers(plan, all);
    // Two profiles of one method are not to be ranked.
    let has_rivals = plan.experiment != Experiment::Fig3;
    for cells in all.iter().filter(|cells| has_rivals || cells.is_empty()) {
        let lines: Vec<String> = plan
            .experiment
            .scores()
            .iter()
            .filter_map(|score| {
                let found = verdict(cells, score)?;
                Some(format!("{}: {found}", score_title(score)))
            })
            .collect();
        match lines.as_slice() {
            [] if cells.is_empty() => {
                let _ = writeln!(text, "- **{}**: not run yet", cells.setting.label());
            }
            [] => {
                let _ = writeln!(
                    text,
                    "- **{}**: FedSI (calibrated) has not been run yet",
                    cells.setting.label()
                );
            }
            lines => {
                let rounds = cells.other_rounds().map(|rounds| format!(", {rounds}")).unwrap_or_default();
                let _ = writeln!(text, "- **{}**{rounds}", cells.setting.label());
                let left_out = plan.experiment.scores().first().and_then(|score| left_out(cells, score));
                for line in lines.iter().chain(&left_out) {
                    let _ = writeln!(text, "  - {line}");
                }
            }
        }
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

/// What columns mean that not everybody knows.
fn notes(plan: &Plan) -> String {
    let mut text = String::from(
        "\nFedSI has two profiles: *calibrated*, its defaults, and *paper*, the paper's settings.",
    );
    if plan.entries.iter().any(|entry| entry.source == Source::WeightNoise) {
        text.push_str(
            " \"FedBABU, noise\" is a point method that was strong before: FedBABU with FedSI's weight noise and a temperature.",
        );
    }
    if plan.entries.iter().any(|entry| entry.source == Source::Pooled) {
        text.push_str(
            " \"All data pooled\" is one network trained on everybody's data in one place, with a temperature and weight noise of at most \
             0.1, for an eighth of the rounds: a reference, not a bound. It knows all ten classes, not its client's; it is not ranked, since \
             it has one client.",
        );
    }
    if plan.experiment == Experiment::Table2 {
        text.push_str(
            " A floor is what a perfectly calibrated model with the same confidences would score by chance. AURC is the mean error \
             rate over all coverages when the least confident predictions are declined first. AUROC: how well the entropy of \
             predictions, and strangeness, tell other inputs from a client's own test samples (1: always, 0.5: never).",
        );
    }
    text.push('\n');
    text
}

fn tests(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let scores = plan.experiment.scores();
    let mut text = String::from(
        "\n## Tests\n\nDifferences from FedSI (calibrated), which was named as the reference beforehand: paired over seeds, each of \
         which draws clients, samples and networks anew; Student's 95% interval and t-test over seeds, corrected by Holm for the \
         methods tested by a score; beside it the bootstrap over seeds and clients within them (accuracy, Brier, NLL), as a check: where \
         the two disagree on whether 0 is excluded, no difference is established. With fewer than five seeds there is no test \
         ([statistics](../../docs/statistics.md)).\n",
    );
    for cells in all {
        let Some(table) = difference_table(cells, scores) else { continue };
        let _ = write!(
            text,
            "\n<details><summary>{}</summary>\n\n{}\n</details>\n",
            cells.setting.label(),
            table.markdown()
        );
    }
    text
}

fn beside_the_paper(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let scores: &[&str] = match plan.experiment {
        Experiment::Table1 => &["accuracy"],
        Experiment::Table2 | Experiment::Fig4 => &["ece", "mce", "brier"],
        Experiment::Fig3 | Experiment::Fig5 | Experiment::Fig6 => &[],
    };
    let base = plan.partition == Partition::Labels && plan.form == Form::Full;
    if !base {
        return "\n## Beside the paper\n\nThe quick form and other partitions are not set beside the paper's figures.\n".to_owned();
    }
    let mut text = format!(
        "\n## Beside the paper\n\n{NOT_COMPARABLE} More in [docs/reproduction.md](../../docs/reproduction.md).\n"
    );
    match published_table(all, scores) {
        Some(table) => {
            let _ = write!(text, "\n{}", table.markdown());
        }
        None => text.push_str("\nThe paper prints no numbers here: its plot has none.\n"),
    }
    text
}

/// What was run, on what.
fn protocol(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let mut text = format!("\n## Setting\n\n- Partition: {}.\n", plan.partition.about());
    text.push_str(
        "- Test data is touched once, after training; the last round is reported, never the best; personalised methods are scored by \
         their personal models. Adam, batch 50. FedSI (calibrated) trains several networks in turn within the same rounds (four at 800) and tunes \
         a head for each at the end. Seeds from 101 on: nothing was chosen on them.\n",
    );
    text.push_str(match plan.experiment {
        Experiment::Fig5 => {
            "- One client is left out of training, another one for each seed, and that client alone is scored. It adapts what its method \
             would tune, for ten epochs (FedPop: its chain goes on); where the method tunes nothing, the head (FedAvg, FedPer, BPFed) or the whole network \
             (Local only, LG-FedAvg, pFedBayes).\n"
        }
        Experiment::Fig6 => "- Ten epochs of tuning at the end, for methods that tune, whatever the local epochs are.\n",
        _ => "- Ten local epochs a round, ten epochs of tuning at the end for methods that tune; FedAvg is scored by the global model.\n",
    });
    for cells in all {
        let records = || cells.rows.iter().flat_map(|row| &row.records);
        let seeds: BTreeSet<u64> = records().map(|run| run.summary.seed).collect();
        let machines: BTreeSet<String> = records()
            .map(|run| {
                let device = run.summary.cpu.clone().or_else(|| run.summary.device.clone());
                format!(
                    "fedsi {} on {}",
                    run.summary.version,
                    device.unwrap_or_else(|| "an unknown device".to_owned())
                )
            })
            .collect();
        let range = match (seeds.first(), seeds.last()) {
            (Some(first), Some(last)) if first != last => format!("seeds {first} to {last}"),
            (Some(only), _) => format!("seed {only}"),
            _ => "no runs yet".to_owned(),
        };
        let protocol = cells.setting.rounds;
        let rounds = match cells.other_rounds() {
            Some(rounds) => format!("{rounds} (the protocol has {protocol})"),
            None => format!("{protocol} rounds"),
        };
        let _ = writeln!(
            text,
            "- {}: {rounds}, {range}{}{}",
            cells.setting.label(),
            if machines.is_empty() { "" } else { "; " },
            machines.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    text.push_str(&tuned_values(plan));
    text
}

/// Where the rows' settings come from.
fn tuned_values(plan: &Plan) -> String {
    let sets: BTreeSet<&str> = plan.settings.iter().map(|setting| setting.tuned_on.as_str()).collect();
    let (tuned_sets, others): (Vec<&str>, Vec<&str>) = sets.into_iter().partition(|set| tuned::is_tuned(set));
    let mut text = String::from(
        "- FedSI and FedSI-Fac have the settings of their profiles. All others were tuned by the same search (three values of three \
         keys each, on a fifth of the training data held out, seed 1, 200 rounds: [tuning](../tuning/README.md)) and have a temperature that the \
         federation chooses on data set aside. What is best at 200 rounds need not be at 800.",
    );
    if !others.is_empty() {
        let _ = write!(text, " Not tuned on {}: defaults there, and a temperature.", others.join(", "));
    }
    text.push('\n');
    let rows: Vec<_> = plan.entries.iter().filter(|entry| entry.source == Source::Tuned).collect();
    if tuned_sets.is_empty() || rows.is_empty() {
        return text;
    }
    let heading =
        std::iter::once("tuned values".to_owned()).chain(tuned_sets.iter().map(|set| format!("on {set}")));
    let line = |entry: &&&crate::entry::Entry| {
        let cell = |set: &&str| {
            let values = tuned::values(set, entry.method);
            let texts: Vec<String> = values.iter().map(|(key, value)| format!("{key} {value}")).collect();
            texts.join(", ").into()
        };
        std::iter::once(entry.title.to_owned().into()).chain(tuned_sets.iter().map(cell)).collect()
    };
    let table = TextTable { heading: heading.collect(), rows: rows.iter().map(line).collect() };
    let _ = write!(text, "\n<details><summary>Tuned values</summary>\n\n{}\n</details>\n", table.markdown());
    text
}

/// How everything is made again, the runs with fewer rounds too.
fn again(plan: &Plan, all: &[SettingCells<'_>], command: &str) -> String {
    let mut text = format!("\n## How to reproduce\n\n```sh\n{command}\n");
    for cells in all {
        let partial: BTreeSet<usize> = cells
            .rows
            .iter()
            .filter_map(|row| row.rounds)
            .filter(|rounds| *rounds != cells.setting.rounds)
            .collect();
        for rounds in partial {
            let seeds =
                cells.rows.iter().filter(|row| row.rounds == Some(rounds)).map(|row| row.records.len()).max();
            let _ = writeln!(
                text,
                "{command} --settings {} --rounds {rounds} --seeds {}",
                cells.setting.id,
                seeds.unwrap_or(1)
            );
        }
    }
    let _ = write!(
        text,
        "```\n\nThe same command goes on where it was stopped, and `--check results.json` says whether the digits are the same again. \
         Files: `results.json` (every run: its settings, summary, version and device), `config.toml` (the settings of every row and \
         column), tables as `.md` and `.tex`, figures as SVG.{}\n",
        if plan.form == Form::Full { "" } else { " Without `--quick`: the full form." }
    );
    text
}
