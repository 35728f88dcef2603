//! Which plots a run has, and what each is drawn from; those of a comparison are in `compare`.

mod bars;
mod calibration;
mod canvas;
mod compare;
mod differences;
pub mod figures;
mod forest;
mod heatmap;
mod histograms;
mod lines;
mod method_curves;
mod method_style;
mod pdf;
mod reliability;
mod scatter;
mod small_calibration;
mod tradeoff;
mod uncertainty;
mod win_loss;

use fedsi_data::display_name;
use fedsi_fl::client::PosteriorKind;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::scores::Scores;
use fedsi_run::report_data::{ReportData, Selection, SelectionMap};
use fedsi_run::{ClientScores, Summary};

use crate::format::{bytes, grouped};
use crate::{ReportError, RunFiles};

use bars::{Bar, Bars, MAX_BARS};
use canvas::{Axes, NAMED, drawing, number, percent, upper_end, whole};
use heatmap::Heatmap;
use lines::Lines;
use scatter::Scatter;

pub(crate) use calibration::{Captioned, class_plots, value_plots};
pub(crate) use canvas::Drawing;
pub(crate) use compare::{ComparePlots, capital};
pub(crate) use differences::{LEVEL, is_better};
pub(crate) use uncertainty::UncertaintyPlots;

/// Clients and classes that are drawn of a partition.
const PARTITION_ROWS: usize = 50;
const PARTITION_COLUMNS: usize = 60;

/// Points of a curve: more than a screen can show would only weigh.
const MAX_POINTS: usize = 1_000;

/// Cells of a map, each way.
const MAX_CELLS: usize = 64;

/// Everything drawn of a run but its uncertainty.
pub(crate) struct RunPlots {
    pub(crate) clients: Option<Drawing>,
    pub(crate) loss: Option<Drawing>,
    pub(crate) validation: Option<Drawing>,
    pub(crate) layers: Option<Drawing>,
    pub(crate) map: Option<Drawing>,
    pub(crate) overlap: Option<Drawing>,
    pub(crate) seconds: Drawing,
    pub(crate) bytes: Option<Drawing>,
    pub(crate) partition: Option<Drawing>,
}

impl RunPlots {
    /// `listed` clients have a dot each.
    pub(crate) fn of(files: &RunFiles, listed: &[&ClientScores]) -> Result<Self, ReportError> {
        let (rounds, report_data) = (&files.rounds, files.report_data.as_ref());
        let selection = report_data.and_then(|found| found.selection.as_ref());
        Ok(Self {
            clients: clients(listed)?,
            loss: over_rounds("learning-curve", "training loss", rounds, |record| record.train_loss, number)?,
            validation: validation(rounds)?,
            layers: selection.map(layers).transpose()?,
            map: report_data.and_then(|found| map(found).transpose()).transpose()?,
            overlap: over_rounds(
                "subnetwork-overlap",
                "overlap of two clients",
                rounds,
                |record| record.subnetwork.map(|found| found.overlap),
                percent,
            )?,
            seconds: seconds(&files.summary)?,
            bytes: traffic(&files.summary)?,
            partition: report_data
                .and_then(|found| partition(found, &files.summary.clients).transpose())
                .transpose()?,
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Drawing> {
        let Self { clients, loss, validation, layers, map, overlap, seconds, bytes, partition } = self;
        [clients, loss, validation, layers, map, overlap, bytes, partition]
            .into_iter()
            .flatten()
            .chain([seconds])
    }
}

/// A curve over rounds; none where there are no points.
fn over_rounds(
    name: &'static str,
    axis: &str,
    rounds: &[RoundRecord],
    of: impl Fn(&RoundRecord) -> Option<f64>,
    label: fn(&f64) -> String,
) -> Result<Option<Drawing>, ReportError> {
    let points: Vec<(f64, f64)> =
        rounds.iter().filter_map(|record| Some((record.round as f64, of(record)?))).collect();
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    let points: Vec<(f64, f64)> = points.iter().copied().rev().step_by(step).rev().collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(None) };
    let about =
        format!("{axis} over {} rounds, from {} to {}", rounds.len(), label(&first.1), label(&last.1));
    let top = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let axes = Axes {
        x: 0.0..last.0.max(1.0),
        y: 0.0..(1.08 * top).max(1e-6),
        x_name: "round",
        y_name: axis,
        x_label: whole,
        y_label: label,
        y_labels: 6,
        space: NAMED,
    };
    let lines = Lines { axes, curves: vec![(axis, points)], ideal: None, marked: false };
    drawing(name, &about, false, &lines).map(Some)
}

/// What participants held out of their training data, round by round.
fn validation(rounds: &[RoundRecord]) -> Result<Option<Drawing>, ReportError> {
    let accuracy = |record: &RoundRecord| record.validation.and_then(|found| found.accuracy);
    let rmse = |record: &RoundRecord| record.validation.and_then(|found| found.rmse);
    Ok(over_rounds("held-out", "held-out accuracy", rounds, accuracy, percent)?.or(over_rounds(
        "held-out",
        "held-out RMSE",
        rounds,
        rmse,
        number,
    )?))
}

/// Clients by how right and how calibrated they are; none where fewer than two have scores.
fn clients(all: &[&ClientScores]) -> Result<Option<Drawing>, ReportError> {
    let scored: Vec<(&ClientScores, (f64, f64))> =
        all.iter().filter_map(|client| Some((*client, client_place(&client.scores)?))).collect();
    if scored.len() < 2 {
        return Ok(None);
    }
    let dots: Vec<(f64, f64)> = scored.iter().map(|(_, place)| *place).collect();
    let is_classes = scored.iter().any(|(client, _)| client.scores.accuracy().is_some());
    let xs = dots.iter().map(|dot| dot.0);
    let (least, most) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let air = (0.08 * (most - least)).max(if is_classes { 0.01 } else { 0.02 * most });
    let highest = 1.12 * dots.iter().map(|dot| dot.1).fold(0.0, f64::max);
    let worst = |by: fn(&(f64, f64)) -> f64| {
        (0..dots.len()).max_by(|&a, &b| by(&dots[a]).total_cmp(&by(&dots[b])).then(b.cmp(&a)))
    };
    let mut named: Vec<usize> = if is_classes {
        [worst(|dot| -dot.0), worst(|dot| dot.1)]
    } else {
        [worst(|dot| dot.0), worst(|dot| -dot.1)]
    }
    .into_iter()
    .flatten()
    .collect();
    named.dedup();
    let named =
        named.into_iter().map(|place| (place, format!("client {}", scored[place].0.label()))).collect();
    let axes = if is_classes {
        Axes {
            x: (least - air).max(0.0)..(most + air).min(1.0),
            y: 0.0..highest.max(0.01),
            x_name: "accuracy",
            y_name: "calibration error (ECE)",
            x_label: percent,
            y_label: number,
            y_labels: 6,
            space: NAMED,
        }
    } else {
        Axes {
            x: (least - air).max(0.0)..most + air,
            y: 0.0..1.05,
            x_name: "RMSE",
            y_name: "within the 90% interval",
            x_label: number,
            y_label: percent,
            y_labels: 6,
            space: NAMED,
        }
    };
    let about = format!("{} clients, each a dot: {} against {}", dots.len(), axes.y_name, axes.x_name);
    drawing("clients", &about, true, &Scatter { axes, dots, named }).map(Some)
}

/// Where a client's dot lies.
pub(crate) const fn client_place(scores: &Scores) -> Option<(f64, f64)> {
    match *scores {
        Scores::Classification { accuracy: Some(accuracy), ece: Some(ece), .. } => Some((accuracy, ece)),
        Scores::Regression { rmse: Some(rmse), coverage_90: Some(inside), .. } => Some((rmse, inside)),
        Scores::Classification { .. } | Scores::Regression { .. } => None,
    }
}

/// Who holds how many training samples of which class.
fn partition(report_data: &ReportData, clients: &[ClientScores]) -> Result<Option<Drawing>, ReportError> {
    let rows = report_data.train.iter().take(PARTITION_ROWS);
    let columns = report_data.train.first().map_or(0, |row| row.len().min(PARTITION_COLUMNS));
    let values: Vec<f64> =
        rows.clone().flat_map(|row| row.iter().take(columns)).map(|&count| count as f64).collect();
    if columns == 0 {
        return Ok(None);
    }
    let is_classes = !report_data.classes.is_empty();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let names = clients.iter().take(rows.len()).map(ClientScores::label);
    let heat = Heatmap {
        numbered: rows.len() <= 20 && columns <= 10 && largest < 1e4,
        values: &values,
        columns,
        row_names: names.collect(),
        column_names: if is_classes {
            report_data.classes.iter().take(columns).cloned().collect()
        } else {
            vec!["all".to_owned()]
        },
        row_axis: "client",
        column_axis: match (is_classes, report_data.classes.len() > columns) {
            (true, false) => "class",
            (true, true) => "class (the first of many)",
            (false, _) => "training samples",
        },
        full: format!("{} training samples", grouped(largest)),
    };
    let about = format!("Training samples of {} clients and {columns} classes, as shades", rows.len());
    drawing("partition", &about, false, &heat).map(Some)
}

/// How much of each tensor has a distribution.
fn layers(selection: &Selection) -> Result<Drawing, ReportError> {
    let bar = |name: String, chosen: f64, of: f64| {
        let share = chosen / of.max(1.0);
        let shown = if chosen < 10.0 { number(&chosen) } else { grouped(chosen) };
        Bar { name, length: share, words: format!("{shown} of {} ({:.1}%)", grouped(of), 100.0 * share) }
    };
    // Of a deep network the first layers are shown, and the others as one.
    let tensors = &selection.tensors;
    let own = if tensors.len() > MAX_BARS { MAX_BARS - 1 } else { tensors.len() };
    let (first, rest) = tensors.split_at(own);
    let mut bars: Vec<Bar> =
        first.iter().map(|one| bar(display_name(&one.tensor), one.chosen, one.of as f64)).collect();
    if !rest.is_empty() {
        let chosen = rest.iter().map(|one| one.chosen).sum();
        let of = rest.iter().map(|one| one.of as f64).sum();
        bars.push(bar(format!("{} others", grouped(rest.len() as f64)), chosen, of));
    }
    let about: Vec<String> = bars.iter().map(|bar| format!("{}: {}", bar.name, bar.words)).collect();
    let about = format!("Parameters with a distribution, mean over clients: {}", about.join("; "));
    let (axis, full) = ("share of the tensor's parameters, 0 to 100%", 1.0);
    drawing("subnetwork-layers", &about, false, &Bars { axis, bars, full })
}

/// The first layer over the pixels it looks at, or over its kernel.
fn map(report_data: &ReportData) -> Result<Option<Drawing>, ReportError> {
    let Some(found) = report_data.selection.as_ref().and_then(|found| found.map.as_ref()) else {
        return Ok(None);
    };
    // Kept images are never larger than those the network sees.
    let is_kernel = report_data.image.is_some_and(|[_, height, _]| found.height < height);
    let (axis, place) = if is_kernel {
        ("the first layer's weights, over its kernel", "place in the kernel")
    } else {
        ("the first layer's weights, by the pixel they look at", "pixel")
    };
    let (shares, width) = coarser(found);
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let heat = Heatmap {
        values: &shares,
        columns: width,
        row_names: Vec::new(),
        column_names: Vec::new(),
        row_axis: "",
        column_axis: axis,
        full: format!("{:.1}% of the weights of a {place}", 100.0 * largest),
        numbered: false,
    };
    let about = format!(
        "Chosen weights of the first layer on {} x {} places; at most {:.1}% of the weights of a {place}",
        found.height,
        found.width,
        100.0 * largest
    );
    drawing("subnetwork-map", &about, false, &heat).map(Some)
}

/// A map of at most [`MAX_CELLS`] rows and columns: squares of pixels as their mean. Returns its width too.
fn coarser(found: &SelectionMap) -> (Vec<f64>, usize) {
    let side = found.height.max(found.width).div_ceil(MAX_CELLS).max(1);
    let (height, width) = (found.height.div_ceil(side), found.width.div_ceil(side));
    let (mut sums, mut counts) = (vec![0.0; height * width], vec![0.0; height * width]);
    for (place, share) in found.shares.iter().enumerate() {
        let cell = place / found.width / side * width + place % found.width / side;
        sums[cell] += share;
        counts[cell] += 1.0;
    }
    (sums.iter().zip(&counts).map(|(sum, count): (&f64, &f64)| sum / count.max(1.0)).collect(), width)
}

fn seconds(summary: &Summary) -> Result<Drawing, ReportError> {
    let seconds = summary.seconds;
    let mut phases = vec![("training", seconds.train)];
    // Where the distribution is what is trained or sampled, inferring it is no phase of its own.
    if summary.posterior.is_some_and(|posterior| posterior.kind == PosteriorKind::Laplace) {
        phases.push(("posteriors", seconds.posterior));
    }
    phases.push(("evaluation", seconds.evaluate));
    let rest = seconds.total - seconds.train - seconds.posterior - seconds.evaluate;
    phases.push(("data and files", rest.max(0.0)));
    let total = seconds.total.max(1e-9);
    let bars = phases.into_iter().map(|(name, length)| Bar {
        name: name.to_owned(),
        length,
        words: format!("{length:.1} s ({:.0}%)", 100.0 * length / total),
    });
    let bars: Vec<Bar> = bars.collect();
    let about: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.name, bar.words)).collect();
    let full = bars.iter().map(|bar| bar.length).fold(1e-9, f64::max);
    let about = format!("Seconds by phase: {}", about.join(", "));
    drawing("seconds", &about, false, &Bars { axis: "seconds of wall clock", bars, full })
}

fn traffic(summary: &Summary) -> Result<Option<Drawing>, ReportError> {
    let directions = [("up", summary.bytes.up), ("down", summary.bytes.down)];
    let rounds = summary.rounds.max(1) as u64;
    let bars = directions.map(|(name, sum)| Bar {
        name: name.to_owned(),
        length: sum as f64,
        words: format!("{} ({} a round)", bytes(sum), bytes(sum / rounds)),
    });
    let full = bars.iter().map(|bar| bar.length).fold(0.0, f64::max);
    if full == 0.0 {
        return Ok(None);
    }
    let about = format!("Traffic: {} up, {} down", bars[0].words, bars[1].words);
    let bars = Bars { axis: "bytes between server and clients", bars: bars.into(), full };
    drawing("bytes", &about, false, &bars).map(Some)
}
