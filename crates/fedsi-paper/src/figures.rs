//! The figures of an experiment, as SVG.

use std::collections::BTreeSet;

use fedsi_metrics::{MIN_PAIRS, ReliabilityBin, paired_t_test};
use fedsi_report::figures::{
    DotPanel, DotRow, LinePanel, LinePoint, MOST_COLUMNS, MOST_PANELS, MethodDots, MethodLine, MethodLines,
    ReliabilityCell, ReliabilityPanels, ReliabilityRow, SettingValue, Unit,
};

use crate::PaperError;
use crate::cells::{SettingCells, by_title, is_higher_better, range};
use crate::entry::REFERENCE;
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::setting::Variation;
use crate::tables::pooled_bins;
use crate::text::score_title;

/// The methods of the reliability diagrams: FedSI in both profiles, a strong point method, and the Bayesian rivals that the
/// paper's Table II has before FedSI.
const RELIABILITY_METHODS: [&str; 5] = [REFERENCE, "fedsi-paper", "fedbabu-noise", "pfedbayes", "bpfed"];

/// The rows whose lines have a name: FedSI in both profiles, and the point method that it builds on without and with noise.
const LINES: [&str; 4] = [REFERENCE, "fedsi-paper", "fedbabu", "fedbabu-noise"];

/// So many rivals are nearest to FedSI: the range of a figure of differences. The others are arrows.
const NEAREST: usize = 5;

/// A figure as a file.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name.
    pub file: String,
    /// What it shows, in a few words.
    pub title: String,
    /// Its text.
    pub svg: String,
}

/// All figures of an experiment; none where nothing has been run.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn figures(plan: &Plan, all: &[SettingCells<'_>]) -> Result<Vec<Figure>, PaperError> {
    let run: Vec<&SettingCells<'_>> = all.iter().filter(|cells| !cells.is_empty()).collect();
    if run.is_empty() {
        return Ok(Vec::new());
    }
    let scores = plan.experiment.scores();
    match plan.experiment {
        Experiment::Table1 | Experiment::Fig5 => {
            let mut all: Vec<Figure> = differences(plan, &run, scores)?.into_iter().collect();
            for score in scores {
                all.push(dots(plan, &run, score)?);
            }
            Ok(all)
        }
        Experiment::Table2 => {
            let mut all: Vec<Figure> = differences(plan, &run, &["brier", "aurc"])?.into_iter().collect();
            for score in ["ece", "nll"] {
                all.push(dots(plan, &run, score)?);
            }
            Ok(all)
        }
        Experiment::Fig3 | Experiment::Fig6 => Ok(vec![lines(plan, &run)?]),
        Experiment::Fig4 => reliability(plan, &run),
    }
}

/// A score by method, a panel for each setting; settings with a single row to show are left out beside others.
fn dots(plan: &Plan, run: &[&SettingCells<'_>], score: &str) -> Result<Figure, PaperError> {
    let several: Vec<&SettingCells<'_>> =
        run.iter().copied().filter(|cells| cells.has_several_drawn()).collect();
    let run = if several.is_empty() { run } else { &several };
    let row = |cells: &SettingCells<'_>, row: usize| {
        if !cells.is_drawn(row) {
            return DotRow::default();
        }
        DotRow {
            value: cells.spread(row, score).map(|spread| spread.mean),
            interval: interval(&cells.values(row, score)),
        }
    };
    let panel = |cells: &&SettingCells<'_>| {
        dot_panel(cells, score, (0..cells.rows.len()).map(|place| row(cells, place)).collect())
    };
    let figure = method_dots(plan, run.iter().map(panel).collect(), run.len());
    Ok(Figure { file: format!("{score}.svg"), svg: figure.svg()?, title: figure.title })
}

/// A panel of one score under one setting.
fn dot_panel(cells: &SettingCells<'_>, score: &str, rows: Vec<DotRow>) -> DotPanel {
    DotPanel {
        title: drawn_title(cells),
        axis: score_title(score).trim_end_matches(" %").to_owned(),
        unit: unit(score),
        lower_is_better: !is_higher_better(score),
        farthest: None,
        rows,
    }
}

/// Scores of the plan's rows, the panels of a score beside each other.
fn method_dots(plan: &Plan, mut panels: Vec<DotPanel>, settings: usize) -> MethodDots {
    panels.truncate(MOST_PANELS);
    MethodDots {
        title: plan.experiment.title().to_owned(),
        highlighted: plan.entries.iter().position(|entry| entry.id == REFERENCE),
        methods: plan.entries.iter().map(|entry| entry.title.to_owned()).collect(),
        columns: settings.min(panels.len()).min(MOST_COLUMNS),
        panels,
        better_label: "better".to_owned(),
        dot_label: "mean over seeds, 95% interval".to_owned(),
        hollow_label: format!("fewer than {MIN_PAIRS} seeds: no interval"),
    }
}

/// FedSI minus each method that is tested against it, on the settings that have tests; none where nothing is tested. Seeds
/// differ more from each other than methods on the same seed do, so that this shows what scores side by side do not.
fn differences(
    plan: &Plan,
    run: &[&SettingCells<'_>],
    scores: &[&str],
) -> Result<Option<Figure>, PaperError> {
    let tested: Vec<&&SettingCells<'_>> =
        run.iter().filter(|cells| scores.iter().any(|score| cells.tests(score) > 0)).collect();
    if tested.is_empty() {
        return Ok(None);
    }
    let row = |cells: &SettingCells<'_>, score: &str, row: usize| {
        if cells.rows[row].entry.id == REFERENCE {
            return DotRow { value: Some(0.0), interval: Some([0.0; 2]) };
        }
        let difference = cells.result(row, score).and_then(|result| result.difference);
        match difference.filter(|difference| difference.p_holm.is_some()) {
            // As in the tables: FedSI minus the method.
            Some(difference) => DotRow {
                value: Some(-difference.mean),
                interval: difference.interval.map(|[low, high]| [-high, -low]),
            },
            None => DotRow::default(),
        }
    };
    let panel = |score: &str, cells: &SettingCells<'_>| {
        let rows: Vec<DotRow> = (0..cells.rows.len()).map(|place| row(cells, score, place)).collect();
        let mut distances: Vec<f64> = rows.iter().filter_map(|row| Some(row.value?.abs())).collect();
        distances.sort_by(f64::total_cmp);
        DotPanel { farthest: distances.get(NEAREST).copied(), ..dot_panel(cells, score, rows) }
    };
    let panels = scores.iter().flat_map(|score| tested.iter().map(|cells| panel(score, cells)));
    let figure = MethodDots {
        title: format!("{}, FedSI (calibrated) minus each method", plan.experiment.title()),
        better_label: "FedSI better".to_owned(),
        dot_label: "FedSI (calibrated) minus the method, 95% interval".to_owned(),
        ..method_dots(plan, panels.collect(), tested.len())
    };
    let figure = without_empty_rows(figure);
    Ok(Some(Figure { file: "differences.svg".to_owned(), svg: figure.svg()?, title: figure.title }))
}

/// The same without the rows that have nothing to show in any panel.
fn without_empty_rows(mut figure: MethodDots) -> MethodDots {
    let is_empty = |row: usize| figure.panels.iter().all(|panel| panel.rows[row].value.is_none());
    let empty: Vec<bool> = (0..figure.methods.len()).map(is_empty).collect();
    let keep = |row: usize| !empty[row];
    figure.highlighted =
        figure.highlighted.filter(|&row| keep(row)).map(|row| (0..row).filter(|&row| keep(row)).count());
    let mut rows = 0..;
    figure.methods.retain(|_| rows.next().is_some_and(keep));
    for panel in &mut figure.panels {
        let mut rows = 0..;
        panel.rows.retain(|_| rows.next().is_some_and(keep));
    }
    figure
}

/// A name of the setting, and the rounds of the rows that are drawn where they are not those of the protocol.
fn drawn_title(cells: &SettingCells<'_>) -> String {
    let title = &cells.setting.title;
    match cells.reference().and_then(|row| cells.rows[row].rounds) {
        Some(rounds) if rounds != cells.setting.rounds => format!("{title}, {rounds} rounds"),
        Some(_) => title.clone(),
        None => panel_title(cells, title),
    }
}

/// A name of the setting, and the rounds of its runs where they are not those of the protocol.
fn panel_title(cells: &SettingCells<'_>, name: &str) -> String {
    cells.other_rounds().map_or_else(|| name.to_owned(), |rounds| format!("{name}, {rounds}"))
}

fn unit(score: &str) -> Unit {
    if score == "accuracy" { Unit::Percent } else { Unit::Number }
}

/// Student's 95% interval of the mean over seeds; none with few of them.
fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let pairs: Vec<(f64, f64)> = values.iter().map(|&value| (value, 0.0)).collect();
    paired_t_test(&pairs).map(|test| test.interval.into())
}

/// The value that a setting varies, and how it is written.
fn varied(variation: Variation) -> Option<SettingValue> {
    match variation {
        Variation::SubnetworkPercent(percent) => {
            Some(SettingValue { value: f64::from(percent), label: format!("{percent}%") })
        }
        Variation::LocalEpochs(epochs) => {
            Some(SettingValue { value: f64::from(epochs), label: epochs.to_string() })
        }
        Variation::None | Variation::NovelClient => None,
    }
}

/// Scores over the values that are varied, a panel for each dataset and score.
fn lines(plan: &Plan, run: &[&SettingCells<'_>]) -> Result<Figure, PaperError> {
    let mut x: Vec<SettingValue> = run.iter().filter_map(|cells| varied(cells.setting.variation)).collect();
    x.sort_by(|a, b| a.value.total_cmp(&b.value));
    x.dedup();
    let mut panels = Vec::new();
    for (title, own) in by_title(run.iter().copied()) {
        for score in plan.experiment.scores() {
            let point = |row: usize, x: &SettingValue| {
                let cells = own.iter().find(|cells| varied(cells.setting.variation).as_ref() == Some(x))?;
                let value = cells.spread(row, score)?.mean;
                Some(LinePoint { value, interval: interval(&cells.values(row, score)) })
            };
            let line = |method: usize| {
                let points: Vec<Option<LinePoint>> = x.iter().map(|x| point(method, x)).collect();
                points.iter().any(Option::is_some).then_some(MethodLine { method, points })
            };
            let better = if is_higher_better(score) { "higher" } else { "lower" };
            panels.push(LinePanel {
                title: panel_title(own[0], title),
                axis: format!("{}, {better} is better", score_title(score).trim_end_matches(" %")),
                unit: unit(score),
                lines: (0..plan.entries.len()).filter_map(line).collect(),
            });
        }
    }
    panels.truncate(MOST_PANELS);
    let columns = plan.experiment.scores().len().min(3);
    let x_axis = match plan.experiment {
        // Short, so that a range of seeds beside them fits a panel.
        Experiment::Fig3 => "share of body",
        _ => "local epochs",
    };
    let seeds: BTreeSet<usize> =
        run.iter().flat_map(|cells| &cells.rows).map(|row| row.records.len()).collect();
    let seeds = range(&seeds.into_iter().filter(|seeds| *seeds > 0).collect(), "seed");
    let x_axis = format!("{x_axis} ({})", seeds.unwrap_or_default());
    let figure = MethodLines {
        title: plan.experiment.title().to_owned(),
        methods: plan.entries.iter().map(|entry| entry.title.to_owned()).collect(),
        highlighted: plan.entries.iter().position(|entry| entry.id == REFERENCE),
        unnamed: (0..plan.entries.len()).filter(|&row| !LINES.contains(&plan.entries[row].id)).collect(),
        unnamed_label: "other methods".to_owned(),
        x_axis,
        x,
        panels,
        columns,
    };
    Ok(Figure { file: "curves.svg".to_owned(), svg: figure.svg()?, title: figure.title })
}

fn reliability(plan: &Plan, run: &[&SettingCells<'_>]) -> Result<Vec<Figure>, PaperError> {
    let cell = |cells: &SettingCells<'_>, id: &str| {
        let place =
            cells.rows.iter().position(|row| row.entry.id == id).filter(|&row| cells.is_drawn(row))?;
        let row = &cells.rows[place];
        let pooled = pooled_bins(row.records.iter().map(|run| run.bins.as_slice()));
        let bins = pooled.iter().enumerate().map(|(place, &(count, confidence, accuracy))| {
            let edge = |place: usize| place as f64 / pooled.len() as f64;
            ReliabilityBin { lo: edge(place), hi: edge(place + 1), count, confidence, accuracy }
        });
        let result = cells.result(place, "ece");
        Some(ReliabilityCell {
            bins: bins.collect(),
            ece: cells.spread(place, "ece")?.mean,
            floor: result.and_then(|result| result.floor),
        })
    };
    let is_run = |id: &str| run.iter().any(|cells| cell(cells, id).is_some());
    let wanted =
        RELIABILITY_METHODS.iter().filter_map(|id| plan.entries.iter().find(|entry| entry.id == *id));
    let entries: Vec<_> = wanted.filter(|entry| is_run(entry.id)).collect();
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let row = |cells: &&SettingCells<'_>| ReliabilityRow {
        title: drawn_title(cells),
        cells: entries.iter().map(|entry| cell(cells, entry.id)).collect(),
    };
    let figure = ReliabilityPanels {
        title: plan.experiment.title().to_owned(),
        columns: entries.iter().map(|entry| entry.title.to_owned()).collect(),
        rows: run.iter().map(row).collect(),
    };
    Ok(vec![Figure { file: "reliability.svg".to_owned(), svg: figure.svg()?, title: figure.title }])
}
