//! What a site keeps of its own client at the end: its model, its predictions and their scores, in the files of a run with
//! one client, so that everything that opens a run opens these.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_data::{Federation, InputFile, Split, Task};
use fedsi_fl::Checked;
use fedsi_fl::client::{Client, PosteriorSummary};
use fedsi_fl::coordinator::Tally;
use fedsi_fl::site::Personal;
use fedsi_fl::wire::Traffic;

use super::files::write_json;
use crate::RunError;
use crate::class_scores::ClassScores;
use crate::device::ComputeDevice;
use crate::files::{Readers, create_folder, remove_file_for_good, write_streamed};
use crate::naming::{dataset_name, target_suffixes};
use crate::personal_file::{PersonalFiles, describe};
use crate::predictions_file::prediction_tensors;
use crate::predictions_table::{PREDICTIONS_TABLE, PredictionsTable};
use crate::score_details::ScoreDetails;
use crate::summary::{ClientCoverage, ClientScores, Seconds, Summary};
use crate::tensor_file::write_tensors;

const SUMMARY: &str = "summary.json";
const PREDICTIONS: &str = "predictions.safetensors";

/// Where a client's results go, and whose they are.
pub(super) struct SiteResults<'a> {
    pub(super) path: &'a Path,
    pub(super) config: &'a Checked,
    pub(super) client: &'a Client,
    pub(super) federation: &'a dyn Federation,
    /// The federation's id.
    pub(super) id: &'a str,
    pub(super) own_network: bool,
    pub(super) device: &'a ComputeDevice,
}

impl SiteResults<'_> {
    /// Writes them, in place of older ones; `summary.json` comes last and goes first, so that it is never beside a half.
    pub(super) fn write(&self, personal: &Personal) -> Result<(), RunError> {
        let Self { path, config, client, federation, id, own_network, device } = *self;
        let Personal { round, calibration, model, predictions, strangeness } = personal;
        let owner = model.client;
        remove_file_for_good(&path.join(SUMMARY))?;
        let folder = path.join("clients");
        create_folder(&folder, Readers::Owner)?;
        let description = describe(federation, config, !own_network)?;
        let files = PersonalFiles { client, federation, method: &config.method, id, description };
        files.save(&folder.join(format!("{owner}.safetensors")), model)?;
        let owners = vec![owner; predictions.len()];
        let unknown = || vec![f64::NAN; predictions.len()];
        let strangeness =
            strangeness.clone().filter(|all| all.len() == predictions.len()).unwrap_or_else(unknown);
        let table = PredictionsTable {
            federation,
            predictions,
            owners: &owners,
            strangeness: &strangeness,
            suffixes: &match federation.task() {
                Task::Regression { outputs } => target_suffixes(config, outputs),
                Task::Classification { .. } => Vec::new(),
            },
        };
        write_streamed(Readers::Owner, &path.join(PREDICTIONS_TABLE), |out| table.write(out))?;
        let tensors = prediction_tensors(predictions.clone(), owners.clone());
        write_tensors(&path.join(PREDICTIONS), &tensors, None)?;
        let scores = predictions.scores();
        let name = federation.client_name(owner).map(str::to_owned);
        let samples = predictions.len();
        let novel = config.federation.novel_clients.contains(&owner);
        let clients = vec![ClientScores { id: owner, name, samples, problem: None, novel, scores }];
        let classes = ClassScores::of(predictions, federation.class_names());
        let counts = |client: usize| Some(federation.label_counts(client, Split::Train));
        let accuracies: Vec<f64> = scores.accuracy().into_iter().collect();
        let mut digests = BTreeMap::new();
        for file in [PREDICTIONS, PREDICTIONS_TABLE] {
            digests.insert(file.to_owned(), InputFile::of(&path.join(file))?.sha256);
        }
        let summary = Summary {
            method: config.method.clone(),
            dataset: dataset_name(config),
            size: config.data.size.to_string(),
            seed: config.seed,
            rounds: usize::try_from(*round).unwrap_or(config.rounds),
            scores,
            coverage: Some(ClientCoverage::of(&clients)),
            details: ScoreDetails::of(predictions, &owners, &accuracies, &classes, &counts),
            clients,
            classes,
            posterior: PosteriorSummary::of_model(model, client.network().layout().head().len()),
            modes: Some(model.modes.len()).filter(|&modes| modes > 1),
            calibration: *calibration,
            seconds: Seconds::default(),
            bytes: Traffic::default(),
            trouble: Tally::default(),
            epsilon: None,
            delta: None,
            peak_rss_bytes: None,
            device: Some(device.name().to_owned()),
            cpu: Some(device.kind()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: Some(id.to_owned()),
            files: digests,
        };
        Ok(write_json(&path.join(SUMMARY), Readers::Owner, &summary)?)
    }
}
