//! The data of the page's script, for each client: small whole numbers, so that a thousand clients fit into the page.

use std::collections::BTreeMap;

use fedsi_run::ClientScores;
use serde::Serialize;

use crate::ReportError;
use crate::client_verdict::ClientVerdict;
use crate::plots::client_place;
use crate::sample_gallery::Gallery;
use crate::series::{ClassSeries, RunSeries, ValueSeries};

/// Steps of a share in the data: a tenth of a percent.
const STEPS: f64 = 1000.0;

/// The data of the page's script. Shares are in per mille.
#[derive(Debug, Serialize)]
pub(crate) struct ScriptData<'a> {
    /// The names of classes on the cards, by their number: there may be many thousands of others.
    classes: BTreeMap<usize, &'a str>,
    /// Columns of the table that samples are rows of.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    columns: &'a [String],
    /// Names of the tiles of a client.
    tiles: Vec<&'a str>,
    /// Groups that have a panel in the histograms of entropy: right, wrong, unseen.
    groups: Vec<usize>,
    clients: Vec<Client<'a>>,
    galleries: BTreeMap<usize, Gallery>,
}

/// One client; fields without data are left out.
#[derive(Debug, Serialize)]
struct Client<'a> {
    id: usize,
    /// Its name.
    n: String,
    /// Its scores in words.
    t: String,
    /// What its predictions allow to say.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    w: &'a [String],
    /// Its tiles: which name, value and note.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    f: Vec<(usize, &'a str, &'a str)>,
    /// Where its dot lies among clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<(f64, f64)>,
    #[serde(flatten)]
    series: Option<Series>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Series {
    Classes {
        /// Bins that hold samples: place, count, accuracy, confidence.
        r: Vec<[u32; 4]>,
        /// Risk at each coverage.
        k: Vec<u32>,
        /// Histograms of the entropy of right, wrong and unseen-class predictions.
        e: [Vec<usize>; 3],
    },
    Values {
        /// Coverage at each level.
        v: Vec<u32>,
        /// A histogram of standardised residuals.
        z: Vec<usize>,
        /// Predicted deviation and error.
        s: Vec<(f64, f64)>,
    },
}

impl<'a> ScriptData<'a> {
    /// Of the clients that the page lists.
    pub(crate) fn new(
        (classes, columns): (&'a [String], &'a [String]),
        listed: &[&ClientScores],
        series: Option<&RunSeries>,
        galleries: BTreeMap<usize, Gallery>,
        verdicts: &'a BTreeMap<usize, ClientVerdict>,
    ) -> Self {
        let mut tiles: Vec<&str> = Vec::new();
        let mut names = |name: &'a str| match tiles.iter().position(|own| *own == name) {
            Some(place) => place,
            None => {
                tiles.push(name);
                tiles.len() - 1
            }
        };
        let mut client = |scores: &&ClientScores| Client {
            id: scores.id,
            n: scores.label(),
            t: in_words(scores),
            w: verdicts.get(&scores.id).map_or(&[][..], |verdict| &verdict.lines),
            f: verdicts.get(&scores.id).map_or_else(Vec::new, |verdict| {
                let tiles = verdict.tiles.iter();
                tiles.map(|tile| (names(&tile.name), tile.value.as_str(), tile.note.as_str())).collect()
            }),
            d: client_place(&scores.scores).map(|(x, y)| (short(x), short(y))),
            series: series.and_then(|series| Series::of(series, scores.id)),
        };
        let mut clients: Vec<Client<'a>> = listed.iter().map(&mut client).collect();
        clients.sort_by_key(|client| client.id);
        let cards = galleries.values().flat_map(|own| own.unsure.iter().chain(&own.wrong));
        let shown = cards.flat_map(|card| card.top.iter().map(|(class, _)| *class).chain([card.label]));
        let classes = shown.filter_map(|class| Some((class, classes.get(class)?.as_str()))).collect();
        let groups = match series {
            Some(RunSeries::Classes { pooled, .. }) => pooled.entropy_groups(),
            Some(RunSeries::Values { .. }) | None => Vec::new(),
        };
        Self { classes, columns, tiles, groups, clients, galleries }
    }

    /// As JSON that no HTML can be read into.
    pub(crate) fn json(&self) -> Result<String, ReportError> {
        let text = serde_json::to_string(self).map_err(|error| ReportError::Drawing(error.to_string()))?;
        Ok(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
    }
}

impl Series {
    fn of(series: &RunSeries, id: usize) -> Option<Self> {
        match series {
            RunSeries::Classes { clients, .. } => {
                let place = clients.binary_search_by_key(&id, |(client, _)| *client).ok()?;
                let ClassSeries { bins, risk, entropy, .. } = &clients[place].1;
                let bins = bins.iter().enumerate().filter(|(_, bin)| !bin.is_empty());
                let bins = bins.map(|(place, bin)| {
                    [place as u32, bin.count as u32, steps(bin.accuracy), steps(bin.confidence)]
                });
                let risk = risk.iter().copied().map(steps).collect();
                Some(Self::Classes { r: bins.collect(), k: risk, e: entropy.clone().map(trimmed) })
            }
            RunSeries::Values { clients, .. } => {
                let place = clients.binary_search_by_key(&id, |(client, _)| *client).ok()?;
                let ValueSeries { coverage, residuals, deviations } = &clients[place].1;
                Some(Self::Values {
                    v: coverage.iter().copied().map(steps).collect(),
                    z: residuals.clone(),
                    s: deviations.iter().map(|&(x, y)| (short(x), short(y))).collect(),
                })
            }
        }
    }
}

fn steps(share: f64) -> u32 {
    (STEPS * share).round() as u32
}

/// Four digits are what a plot can show.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// A histogram without the empty bins at its end.
fn trimmed(mut counts: Vec<usize>) -> Vec<usize> {
    while counts.last() == Some(&0) {
        counts.pop();
    }
    counts
}

/// A client's scores in one line.
fn in_words(client: &ClientScores) -> String {
    let figures = client.scores.figures();
    if figures.iter().all(|figure| figure.value.is_none()) {
        return if client.samples == 0 { "no test data".to_owned() } else { "no predictions".to_owned() };
    }
    let mut words = vec![crate::format::counted(client.samples, "test row")];
    // The largest gap of a client's bins is that of a few rows.
    let shown = figures.iter().zip(client.scores.keys()).filter(|(_, key)| **key != "mce_1pct").take(3);
    words.extend(shown.map(|(figure, _)| format!("{} {}", figure.name, figure.beside_floor())));
    words.join(" · ")
}
