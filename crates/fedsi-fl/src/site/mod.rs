//! A client's own site: the client's end of a federation, on request bytes. What the client keeps, its models and its
//! predictions stay here; the server learns the version of what was kept, updates and scores.

mod states;

use thiserror::Error;

pub use states::{MemoryStates, SiteStateError, SiteStates};

use crate::calibration::Calibration;
use crate::client::{ClientError, PersonalModel, Predictions};
use crate::executor::{
    Evaluated, EvaluationData, Outcome, Request, Response, Task, TaskResult, Work, Worker,
};
use crate::parameters::{Kept, Parameters};
use crate::wire::WireError;

/// The site of one client of one federation.
pub struct Site {
    federation: String,
    client: usize,
    worker: Worker,
    states: Box<dyn SiteStates>,
}

/// What came of a request.
#[derive(Debug)]
pub struct Performed {
    /// The bytes to answer with. What the client keeps is stored before there are any.
    pub response: Vec<u8>,
    /// The client's personal model and its predictions, where they were scored: for the site alone.
    pub personal: Option<Box<Personal>>,
}

/// A client's personal model and what it predicts of the client's own test samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Personal {
    /// Rounds that were complete.
    pub round: u64,
    /// What the federation chose.
    pub calibration: Calibration,
    /// The model.
    pub model: PersonalModel,
    /// The predictions.
    pub predictions: Predictions,
    /// How strange each sample is to the model; none where it does not know.
    pub strangeness: Option<Vec<f64>>,
}

/// Why a request is not answered. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Bytes that are no request, or an answer that cannot be written.
    #[error(transparent)]
    Message(#[from] WireError),
    /// A request of another federation.
    #[error("the request is of federation `{found}`, and this site belongs to `{expected}`")]
    OtherFederation {
        /// This site's.
        expected: String,
        /// The request's.
        found: String,
    },
    /// A request for another client.
    #[error("the request is for client {found}, and this is the site of client {expected}")]
    OtherClient {
        /// This site's.
        expected: usize,
        /// The request's.
        found: usize,
    },
}

impl Site {
    /// The site of this client. `worker` has the client's data; other clients' data it need not have.
    #[must_use]
    pub fn new(federation: &str, client: usize, worker: Worker, states: Box<dyn SiteStates>) -> Self {
        Self { federation: federation.to_owned(), client, worker, states }
    }

    /// The id of its federation.
    #[must_use]
    pub fn federation(&self) -> &str {
        &self.federation
    }

    /// Its client.
    #[must_use]
    pub const fn client(&self) -> usize {
        self.client
    }

    /// What carries out its work.
    #[must_use]
    pub const fn worker(&self) -> &Worker {
        &self.worker
    }

    /// What its client keeps.
    #[must_use]
    pub fn states(&self) -> &dyn SiteStates {
        &*self.states
    }

    /// Carries out a request. The same request gives the same answer: one that comes twice does no harm.
    ///
    /// Cost: that of the work.
    ///
    /// # Errors
    /// Bytes that are no request, or one of another federation or client. What the client cannot do is in the answer.
    pub fn perform(&self, request: &[u8]) -> Result<Performed, RequestError> {
        let Request { federation, task } = Request::decode(request)?;
        if federation != self.federation {
            return Err(RequestError::OtherFederation {
                expected: self.federation.clone(),
                found: federation,
            });
        }
        if task.client != self.client {
            return Err(RequestError::OtherClient { expected: self.client, found: task.client });
        }
        let mut personal = None;
        let result = self.result(task, &mut personal).map_err(|error| {
            // In full here, and only here: an error may quote paths and data.
            tracing::error!(client = self.client, "a request could not be carried out: {error}");
            error.told()
        });
        let outcome = Outcome { client: self.client, result };
        let response = Response { request: Request::digest(request), outcome }.encode()?;
        Ok(Performed { response, personal })
    }

    fn result(&self, task: Task, personal: &mut Option<Box<Personal>>) -> Result<TaskResult, ClientError> {
        let Task { client, work, download, kept, needed_since } = task;
        self.refuse(&work)?;
        let kept = match kept {
            None => None,
            Some(Kept::Parameters(_)) => {
                return Err(ClientError::Refused("start from a state that the server sent"));
            }
            Some(Kept::AtSite { round }) => {
                if let Some(needed) = needed_since {
                    // Never the version that is named, whatever else is said.
                    self.states.remove_before(needed.min(round));
                }
                Some(Kept::Parameters(self.stored(round)?))
            }
        };
        let (round, calibration) = (download.round, download.calibration);
        let scored = work == Work::ScoreTest;
        let work = match work {
            // The same work with model and predictions, which stay here.
            Work::ScoreTest => {
                Work::Evaluate { on: EvaluationData::Test, further_inputs: Vec::new(), return_model: true }
            }
            other => other,
        };
        let task = Task { client, work, download, kept, needed_since };
        match self.worker.perform(task).result? {
            TaskResult::Trained(mut trained) => {
                if let Kept::Parameters(state) = &trained.kept
                    && !state.values().is_empty()
                {
                    self.states.put(round, state).map_err(|error| {
                        tracing::error!(round, "what the client keeps cannot be stored: {error}");
                        ClientError::NotStored
                    })?;
                }
                trained.kept = Kept::AtSite { round };
                Ok(TaskResult::Trained(trained))
            }
            TaskResult::Evaluated(evaluated) if scored => {
                let Evaluated { model, predictions, strangeness, .. } = *evaluated;
                let (Some(model), Some(predictions)) = (model, predictions) else {
                    return Err(ClientError::PredictionsDiverged);
                };
                let scored = self.worker.client().score_test(&predictions)?;
                *personal = Some(Box::new(Personal { round, calibration, model, predictions, strangeness }));
                Ok(TaskResult::Scored(scored))
            }
            TaskResult::CalibrationScores(scores) => Ok(TaskResult::CalibrationScores(scores)),
            TaskResult::Evaluated(_) | TaskResult::Scored(_) => Err(ClientError::OtherResult),
        }
    }

    /// What would tell of the client's rows, or more than the run allows, is not done.
    fn refuse(&self, work: &Work) -> Result<(), ClientError> {
        match work {
            Work::Evaluate { .. } => Err(ClientError::Refused("return its model or its predictions")),
            Work::ScoreCandidates if self.worker.client().is_private() => {
                Err(ClientError::Refused("score candidates where the run hides clients"))
            }
            Work::Train | Work::ScoreCandidates | Work::ScoreTest => Ok(()),
        }
    }

    /// The version of what the client kept that the server names.
    fn stored(&self, round: u64) -> Result<Parameters, ClientError> {
        let problem = match self.states.get(round) {
            Ok(Some(state)) => return Ok(state),
            Ok(None) => "it is not there".to_owned(),
            Err(SiteStateError::Damaged(error)) => error.to_string(),
            Err(SiteStateError::Failed(error)) => {
                tracing::error!(round, "what the client kept cannot be read: {error}");
                return Err(ClientError::NotRead);
            }
        };
        tracing::error!(round, "what the client kept is lost: {problem}");
        let others = self.states.versions().unwrap_or_default();
        let found = others.into_iter().rfind(|&version| version != round);
        Err(ClientError::LostState { expected: round, found })
    }
}
