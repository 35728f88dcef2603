//! Carries out one task at a time, beside the clients' data.

use std::sync::{Arc, Mutex, PoisonError};

use fedsi_data::{Federation, Split, Task as Prediction};

use super::cache::DataCache;
use super::task::{Evaluated, EvaluationData, Outcome, Task, TaskResult, Work};
use crate::client::{Client, ClientError, Division, LocalData, PosteriorSummary, Predictions};
use crate::config::ConfigError;
use crate::network::{DataId, new_source};
use crate::parameters::Kept;
use crate::registry::Checked;

/// Clients with their data: what an executor's threads or processes call. Several threads may share one.
pub struct Worker {
    client: Arc<Client>,
    federation: Arc<dyn Federation>,
    /// Its number as a source of samples.
    source: u64,
    cache: Mutex<DataCache>,
}

impl Worker {
    /// Works for these clients.
    #[must_use]
    pub fn new(client: Arc<Client>, federation: Arc<dyn Federation>) -> Self {
        Self { client, federation, source: new_source(), cache: Mutex::default() }
    }

    /// The same, keeping up to so many bytes of clients' inputs from round to round.
    #[must_use]
    pub fn with_cache(mut self, bytes: usize) -> Self {
        self.cache = Mutex::new(DataCache::new(bytes));
        self
    }

    /// Works for the clients of a run, in a process of its own: the same config and data as elsewhere.
    ///
    /// # Errors
    /// A network that does not fit the data, a selection rule that does not exist.
    pub fn of_config(config: &Checked, federation: Arc<dyn Federation>) -> Result<Self, ConfigError> {
        let (shape, task) = (federation.input_shape(), federation.task());
        let client = Client::of_config(config, shape, task, federation.target_scaling().cloned())?;
        Ok(Self::new(Arc::new(client), federation))
    }

    /// What all clients have in common.
    #[must_use]
    pub const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Carries out a task. The outcome depends on the task and the client's data alone. What lies at the client's own
    /// site ([`Kept::AtSite`]) the site itself puts into the task before: here there is no such state.
    #[must_use]
    pub fn perform(&self, task: Task) -> Outcome {
        Outcome { client: task.client, result: self.result(task) }
    }

    fn result(&self, task: Task) -> Result<TaskResult, ClientError> {
        let Task { client, work, download, kept, needed_since: _ } = task;
        let clients = &self.client;
        let kept = match &kept {
            None => None,
            Some(Kept::Parameters(parameters)) => Some(parameters),
            Some(Kept::AtSite { round }) => {
                return Err(ClientError::LostState { expected: *round, found: None });
            }
        };
        let known = self.federation.clients();
        if client >= known {
            return Err(ClientError::UnknownClient { client, clients: known });
        }
        let modes = clients.procedure().modes.count;
        let mut seen = std::collections::BTreeSet::new();
        if let Some(other) =
            download.modes.iter().find(|shared| shared.mode >= modes || !seen.insert(shared.mode))
        {
            return Err(ClientError::UnknownMode { mode: other.mode, modes });
        }
        let data_of = |mode: usize| self.data(client, clients.division(mode, &download));
        let first = download.modes.first().map_or(0, |shared| shared.mode);
        match work {
            Work::Train => {
                let data = data_of(first);
                let trained = clients.train(client, &download, kept, &data)?;
                Ok(TaskResult::Trained(Box::new(trained)))
            }
            Work::ScoreCandidates => {
                let data: Vec<Arc<LocalData>> =
                    download.modes.iter().map(|shared| data_of(shared.mode)).collect();
                let scores = clients.score_candidates(client, &download, kept, &data)?;
                Ok(TaskResult::CalibrationScores(scores))
            }
            Work::Evaluate { on, further_inputs, return_model } => {
                let data = data_of(first);
                let model = clients.personalise(client, &download, kept, &data)?;
                let (predictions, strangeness) = match on {
                    EvaluationData::Test => {
                        let test = self.federation.samples(client, Split::Test);
                        (clients.predict(&model, &test)?, clients.strangeness(&model, &test.inputs)?)
                    }
                    EvaluationData::HeldOut => (clients.predict(&model, &data.held_out)?, None),
                };
                let further_probabilities = match clients.task() {
                    Prediction::Classification { .. } => clients.probabilities(&model, &further_inputs)?,
                    Prediction::Regression { .. } => Vec::new(),
                };
                let head = clients.network().layout().head().len();
                Ok(TaskResult::Evaluated(Box::new(Evaluated {
                    posterior: PosteriorSummary::of_model(&model, head),
                    predictions: Some(predictions).filter(Predictions::are_finite),
                    strangeness: strangeness.filter(|all| all.iter().all(|one| one.is_finite())),
                    further_probabilities,
                    model: return_model.then_some(model),
                })))
            }
            Work::ScoreTest => {
                let model = clients.personalise(client, &download, kept, &data_of(first))?;
                let test = self.federation.samples(client, Split::Test);
                Ok(TaskResult::Scored(clients.score_test(&clients.predict(&model, &test)?)?))
            }
        }
    }

    /// A client's training data: from the cache, or made anew.
    fn data(&self, client: usize, division: Division) -> Arc<LocalData> {
        // Locked for moments only, by code that does not panic: a poisoned lock still guards sound data.
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = cache().get(client, division.key()) {
            return data;
        }
        let samples = self.federation.samples(client, Split::Train);
        let id = DataId::of_client(self.source, client, division.key());
        let data = Arc::new(self.client.divide(client, samples, division).named(id));
        cache().put(client, division.key(), Arc::clone(&data));
        data
    }
}
