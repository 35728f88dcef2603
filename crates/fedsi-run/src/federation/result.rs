//! `result.json`: what a federation came to.

use std::collections::BTreeMap;

use fedsi_fl::calibration::Calibration;
use fedsi_fl::coordinator::{FederationScores, RoundRecord, Tally};
use fedsi_fl::scores::Scores;
use fedsi_fl::server::Exclusion;
use fedsi_fl::wire::Traffic;
use serde::{Deserialize, Serialize};

use crate::summary::Seconds;

/// `result.json`: what a federation came to, as its server knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FederationResult {
    /// The federation's id.
    pub federation: String,
    /// The method's name.
    pub method: String,
    /// The dataset's name.
    pub dataset: String,
    /// The seed.
    pub seed: u64,
    /// Rounds trained.
    pub rounds: u64,
    /// The scores of all sites that told theirs: accuracy is the mean over sites; mean losses and shares are weighted by
    /// samples; calibration errors come from pooled bins. None where no site told any.
    pub scores: Option<Scores>,
    /// Every site, in the order of clients.
    pub sites: Vec<SiteResult>,
    /// What the federation chose on data set aside; nothing where it chose nothing.
    #[serde(default, skip_serializing_if = "Calibration::is_empty")]
    pub calibration: Calibration,
    /// What travelled, all rounds together.
    pub bytes: Traffic,
    /// Wall clock.
    pub seconds: Seconds,
    /// Updates that were left out by kind, and rounds that were skipped.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub trouble: Tally,
    /// What the shared part may tell of any one site at most, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// The chance that it tells more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Version of fedsi.
    pub version: String,
    /// What tells its models from those of any other federation.
    pub run: String,
}

/// What became of one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteResult {
    /// Its client's number.
    pub client: usize,
    /// Its name.
    pub name: String,
    /// Rounds in which it was asked to train: none of a novel client.
    pub rounds: usize,
    /// How often its update was not used, by kind.
    pub left_out: BTreeMap<Exclusion, u64>,
    /// Its test samples; none where it told no scores.
    pub samples: Option<usize>,
    /// The scores of its personal model; none where it told none: see `problem`, and with privacy always.
    pub scores: Option<Scores>,
    /// Why it has no scores; none also where the federation hides clients.
    pub problem: Option<String>,
}

/// Every site, from what the rounds recorded and what the sites told at the end.
pub(super) fn site_results(
    names: &[String],
    records: &[RoundRecord],
    scored: &FederationScores,
) -> Vec<SiteResult> {
    let mut sites: Vec<SiteResult> = names
        .iter()
        .enumerate()
        .map(|(client, name)| SiteResult {
            client,
            name: name.clone(),
            rounds: 0,
            left_out: BTreeMap::new(),
            samples: None,
            scores: None,
            problem: None,
        })
        .collect();
    for record in records {
        for &client in &record.participants {
            if let Some(site) = sites.get_mut(client) {
                site.rounds += 1;
            }
        }
        for out in &record.left_out {
            if let Some(site) = sites.get_mut(out.client) {
                *site.left_out.entry(out.kind).or_default() += 1;
            }
        }
    }
    for found in &scored.clients {
        let Some(site) = sites.get_mut(found.client) else { continue };
        site.problem.clone_from(&found.problem);
        site.samples = found.scores().map(|scores| scores.samples);
        site.scores = found.scores().map(|scores| scores.scores);
    }
    sites
}
