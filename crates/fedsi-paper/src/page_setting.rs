//! The end of an experiment's page: what was run, on what, with which settings, and the commands that make it again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fedsi_fl::config::ModesSetting;

use crate::cells::{RowCells, SettingCells};
use crate::entry::{Entry, Source};
use crate::experiment::{Experiment, Form};
use crate::plan::Plan;
use crate::setting::Partition;
use crate::text::TextTable;
use crate::tuned;

/// What was run, on what.
pub(crate) fn setting(plan: &Plan, all: &[SettingCells<'_>]) -> String {
    let mut text = format!("\n## Setting\n\n- Partition: {}.\n", plan.partition.about());
    if matches!(plan.partition, Partition::Dirichlet01 | Partition::Dirichlet05) {
        text.push_str(
            "- Accuracy is the mean over clients, however many samples each has; NLL is over all samples. \"All data pooled\" has one client, so that \
             its accuracy is over all samples too.\n",
        );
    }
    text.push_str(
        "- Test data is touched once, after training; the last round is reported, never the best; personalised methods are scored by \
         their personal models. Adam, batch 50. Settings were chosen on seeds 1 to 10, tables are of seeds from 101 on; all seeds deal \
         the same images, each in its own way.\n",
    );
    text.push_str(match plan.experiment {
        Experiment::Fig5 => {
            "- One client is left out of training, another one for each seed, and that client alone is scored. It adapts what its method \
             would tune, for ten epochs (FedPop: its chain goes on); where the method tunes nothing, the head (FedAvg, FedPer, BPFed) or the whole network \
             (Local only, LG-FedAvg, pFedBayes). Temperatures were chosen for the clients that took part: where those trained their own part for \
             all rounds (Local only, FedPer, FedRep, LG-FedAvg), they do not suit a part of ten epochs, and such a row's NLL says more of its temperature than of \
             its predictions.\n"
        }
        Experiment::Fig6 => "- Ten epochs of tuning at the end, for methods that tune, whatever the local epochs are.\n",
        _ => "- Ten local epochs a round, ten epochs of tuning at the end for methods that tune; FedAvg is scored by the global model.\n",
    });
    for cells in all {
        let _ = writeln!(text, "- {}", of_one(cells));
    }
    text.push_str(&tuned_values(plan));
    text
}

/// One setting: its clients, and the runs that there are.
fn of_one(cells: &SettingCells<'_>) -> String {
    let records = || cells.rows.iter().flat_map(|row| &row.records);
    let machines: BTreeSet<String> = records()
        .map(|run| {
            let device = run.summary.cpu.clone().or_else(|| run.summary.device.clone());
            let device = device.unwrap_or_else(|| "an unknown device".to_owned());
            format!("fedsi {} on {device}", run.summary.version)
        })
        .collect();
    let machines: Vec<String> = machines.into_iter().collect();
    let about = format!("{}: {}", cells.setting.label(), cells.setting.about());
    let seeds: BTreeSet<u64> = records().map(|run| run.summary.seed).collect();
    let range = match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if first != last => format!("seeds {first} to {last}"),
        (Some(only), _) => format!("seed {only}"),
        _ => return format!("{about}. No runs yet"),
    };
    let protocol = cells.setting.rounds;
    let rounds = match cells.other_rounds() {
        Some(rounds) => format!("{rounds} (the protocol has {protocol})"),
        None => format!("{protocol} rounds"),
    };
    let networks =
        networks(cells).map_or(String::new(), |networks| format!("; FedSI (calibrated): {networks}"));
    format!("{about}. {rounds}, {range}{networks}; {}", machines.join(", "))
}

/// How many networks FedSI's mixture has in these runs.
fn networks(cells: &SettingCells<'_>) -> Option<String> {
    let rounds = cells.rows[cells.reference()?].rounds?;
    Some(match ModesSetting::AUTO.count(rounds, cells.setting.weight_noise()) {
        1 => "one network".to_owned(),
        count => format!("{count} networks, trained in turn within the same rounds"),
    })
}

/// Where the rows' settings come from.
fn tuned_values(plan: &Plan) -> String {
    let sets: BTreeSet<&str> = plan.settings.iter().map(|setting| setting.tuned_on.as_str()).collect();
    let (mut tuned_sets, mut others): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut searches: Vec<(tuned::Search, Vec<&str>)> = Vec::new();
    for set in sets {
        let Some(search) = tuned::search(set) else {
            others.push(set);
            continue;
        };
        tuned_sets.push(set);
        match searches.iter_mut().find(|(other, _)| *other == search) {
            Some((_, sets)) => sets.push(set),
            None => searches.push((search, vec![set])),
        }
    }
    let about =
        |(search, sets): &(tuned::Search, Vec<&str>)| format!("on {} {}", sets.join(" and "), search.about());
    let searches: Vec<String> = searches.iter().map(about).collect();
    let mut text = format!(
        "- FedSI and FedSI-Fac have the settings of their profiles: *calibrated* was searched by this project, at 800 rounds, for longer \
         than any other method here ([how](../../docs/calibrated.md)). All others were tuned by one search, the same for each (three values of three \
         keys, scored on a fifth of the training data held out: {}; [tuning](../tuning/README.md)), and have a temperature that the federation \
         chooses on data set aside.",
        searches.join("; ")
    );
    if !others.is_empty() {
        let _ = write!(
            text,
            " Others were not tuned on {}: they have their defaults there, and a temperature.",
            others.join(", ")
        );
    }
    text.push('\n');
    let rows: Vec<_> = plan.entries.iter().filter(|entry| entry.source == Source::Tuned).collect();
    if tuned_sets.is_empty() || rows.is_empty() {
        return text;
    }
    let heading =
        std::iter::once("tuned values".to_owned()).chain(tuned_sets.iter().map(|set| format!("on {set}")));
    let line = |entry: &&&Entry| {
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

/// How the runs of the page are made again: a command for those with the same rounds and seeds.
pub(crate) fn how_to_reproduce(plan: &Plan, all: &[SettingCells<'_>], command: &str) -> String {
    let mut text =
        format!("\n## How to reproduce\n\nEverything that the protocol asks for:\n\n```sh\n{command}\n```\n");
    let is_complete = all.iter().all(|cells| {
        cells.rows.iter().all(|row| !row.records.is_empty() && row.shortfall(cells.setting).is_none())
    });
    if !is_complete {
        text.push_str("\nThe runs of this page alone:\n\n```sh\n");
        for part in parts(all) {
            let _ = writeln!(text, "{command}{part}");
        }
        text.push_str("```\n");
    }
    let _ = write!(
        text,
        "\nA command goes on where it was stopped, and `--check results.json` says whether the digits are the same again. \
         Files: `results.json` (every run: its settings, summary, version and device), `config.toml` (the settings of every row and \
         column), tables as `.md` and `.tex`, figures as SVG.{}\n",
        if plan.form == Form::Full { "" } else { " Without `--quick`: the full form." }
    );
    text
}

/// The options that make the runs there are, settings with the same rows, rounds, seeds and device together. Fewer seeds come
/// first: of a row whose later seeds were run on another device, a command leaves those that are there as they are.
fn parts(all: &[SettingCells<'_>]) -> Vec<String> {
    let mut settings: Vec<(String, Vec<&str>)> = Vec::new();
    for cells in all {
        let mut rows: BTreeMap<(Reverse<usize>, usize, &str), Vec<&str>> = BTreeMap::new();
        for row in &cells.rows {
            let Some(rounds) = row.rounds else { continue };
            for (seeds, device) in devices(row) {
                rows.entry((Reverse(rounds), seeds, device)).or_default().push(row.entry.id);
            }
        }
        for ((Reverse(rounds), seeds, device), ids) in rows {
            let methods = if ids.len() == cells.rows.len() {
                String::new()
            } else {
                format!(" --methods {}", ids.join(","))
            };
            let rounds =
                if rounds == cells.setting.rounds { String::new() } else { format!(" --rounds {rounds}") };
            let device = if device == CPU { String::new() } else { format!(" --device {device}") };
            let options = format!("{methods}{rounds} --seeds {seeds}{device}");
            match settings.iter_mut().find(|(known, _)| *known == options) {
                Some((_, ids)) => ids.push(&cells.setting.id),
                None => settings.push((options, vec![&cells.setting.id])),
            }
        }
    }
    settings.into_iter().map(|(options, ids)| format!(" --settings {}{options}", ids.join(","))).collect()
}

/// The device that needs no option.
const CPU: &str = "cpu";

/// What a row's runs were computed on, seed after seed: up to how many seeds which device.
fn devices<'a>(row: &RowCells<'a>) -> Vec<(usize, &'a str)> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (place, record) in row.records.iter().enumerate() {
        let device = record.summary.device.as_deref().unwrap_or(CPU);
        match found.last_mut().filter(|(_, last)| *last == device) {
            Some((seeds, _)) => *seeds = place + 1,
            None => found.push((place + 1, device)),
        }
    }
    found
}
