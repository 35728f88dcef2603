//! Test samples as cards: the picture, what it is, and what the model says it is.

use std::collections::BTreeMap;

use fedsi_data::{display_name, shortened};
use fedsi_metrics::entropy;
use fedsi_run::report_data::{ReportData, SAMPLES_OF_A_KIND, Sample, SampleKind};
use serde::Serialize;

use crate::{ReportError, image};

/// Classes whose probabilities a card shows.
const CLASSES_SHOWN: usize = 3;

/// Letters of a cell that a card shows.
const CELL: usize = 40;

/// What all clients' pictures may take of the page, in bytes; clients beyond that have their numbers alone.
const MAX_BYTES: usize = 900_000;

/// One sample.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Card {
    /// Whose.
    #[serde(rename = "c")]
    pub(crate) client: usize,
    /// Its place among the client's test samples.
    #[serde(rename = "i")]
    pub(crate) index: usize,
    /// Its class.
    #[serde(rename = "l")]
    pub(crate) label: usize,
    /// The most probable classes, in per mille.
    #[serde(rename = "p")]
    pub(crate) top: Vec<(usize, u32)>,
    /// How strange its input is to the model, in tenths of a standard deviation.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub(crate) strangeness: Option<i32>,
    /// What the data calls it.
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Its row within the data, counted from 0 as in `predictions.csv`.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<usize>,
    /// Its cells as the table has them.
    #[serde(rename = "v", skip_serializing_if = "Vec::is_empty")]
    pub(crate) cells: Vec<String>,
    /// A PNG file in base64.
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    pub(crate) picture: Option<String>,
}

/// The cards of one client or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Gallery {
    /// The highest entropy first.
    #[serde(rename = "u")]
    pub(crate) unsure: Vec<Card>,
    /// The highest confidence in a wrong class first.
    #[serde(rename = "w")]
    pub(crate) wrong: Vec<Card>,
}

impl Gallery {
    pub(crate) const fn is_empty(&self) -> bool {
        self.unsure.is_empty() && self.wrong.is_empty()
    }

    /// The federation's gallery.
    pub(crate) fn pooled(report_data: &ReportData) -> Result<Self, ReportError> {
        let mut samples: Vec<&Sample> = report_data.samples.iter().collect();
        let score = |sample: &Sample| match sample.kind {
            SampleKind::LeastCertain => entropy(&sample.probabilities),
            SampleKind::ConfidentlyWrong => {
                f64::from(sample.probabilities.iter().copied().fold(0.0, f32::max))
            }
        };
        samples.sort_by(|a, b| score(b).total_cmp(&score(a)));
        Self::of(&samples, report_data.image)
    }

    /// Each client's own, where samples of each were kept.
    pub(crate) fn by_client(
        report_data: &ReportData,
        clients: usize,
    ) -> Result<BTreeMap<usize, Self>, ReportError> {
        let mut galleries = BTreeMap::new();
        if clients > fedsi_run::report_data::MAX_CLIENTS_WITH_SAMPLES {
            return Ok(galleries);
        }
        let mut bytes = 0;
        for own in report_data.samples.chunk_by(|a, b| a.client == b.client) {
            let shape = report_data.image.filter(|_| bytes < MAX_BYTES);
            let gallery = Self::of(&own.iter().collect::<Vec<_>>(), shape)?;
            let cards = gallery.unsure.iter().chain(&gallery.wrong);
            bytes += cards.filter_map(|card| card.picture.as_ref()).map(String::len).sum::<usize>();
            galleries.insert(own[0].client, gallery);
        }
        Ok(galleries)
    }

    /// The first few samples of each kind.
    fn of(samples: &[&Sample], shape: Option<[usize; 3]>) -> Result<Self, ReportError> {
        let cards = |kind: SampleKind| -> Result<Vec<Card>, ReportError> {
            let own = samples.iter().filter(|sample| sample.kind == kind).take(SAMPLES_OF_A_KIND);
            own.map(|sample| Card::of(sample, shape)).collect()
        };
        Ok(Self { unsure: cards(SampleKind::LeastCertain)?, wrong: cards(SampleKind::ConfidentlyWrong)? })
    }
}

impl Card {
    /// Which sample it is: its id, its row in the data, or its place among its client's.
    pub(crate) fn which(&self) -> String {
        match (&self.id, self.row) {
            (Some(id), _) => id.clone(),
            (None, Some(row)) => format!("row {row}"),
            (None, None) => format!("test sample {}", self.index),
        }
    }

    /// Its strangeness, to be read.
    pub(crate) fn strangeness(&self) -> Option<String> {
        self.strangeness.map(|tenths| format!("{:.1}", f64::from(tenths) / 10.0))
    }

    fn of(sample: &Sample, shape: Option<[usize; 3]>) -> Result<Self, ReportError> {
        let mut top: Vec<(usize, f32)> = sample.probabilities.iter().copied().enumerate().collect();
        top.sort_by(|a, b| b.1.total_cmp(&a.1));
        top.truncate(CLASSES_SHOWN);
        let picture = shape.map(|shape| image::encoded(shape, &sample.pixels)).transpose()?.flatten();
        Ok(Self {
            client: sample.client,
            index: sample.index,
            label: sample.label,
            top: top.into_iter().map(|(class, p)| (class, (1000.0 * p).round() as u32)).collect(),
            strangeness: sample.strangeness.map(|score| (10.0 * score).round() as i32),
            id: sample.id.as_deref().map(display_name),
            row: sample.row,
            cells: sample.cells.iter().map(|cell| shortened(cell, CELL)).collect(),
            picture,
        })
    }
}
