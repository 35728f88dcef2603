//! What clients are asked to do, and what comes of it.

use std::sync::Arc;

use crate::client::{ClientError, PersonalModel, PosteriorSummary, Predictions, Scored, Trained};
use crate::parameters::Kept;
use crate::wire::{CalibrationScores, Download};

/// Work for one client. Its data is where the work is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Which client.
    pub client: usize,
    /// What to do.
    pub work: Work,
    /// What the server sends to it.
    pub download: Arc<Download>,
    /// What it kept; none if it never took part.
    pub kept: Option<Kept>,
    /// Of what it keeps at its own site, versions older than this are not needed again; none where all must stay.
    pub needed_since: Option<u64>,
}

/// What a client is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A round's local training.
    Train,
    /// Score the download's candidates on the data it set aside.
    ScoreCandidates,
    /// Personalise a model and predict with it.
    Evaluate {
        /// On which of its data.
        on: EvaluationData,
        /// More inputs to predict, where classes are: some that the client has never seen, perhaps.
        further_inputs: Vec<f32>,
        /// Whether the model itself is wanted.
        return_model: bool,
    },
    /// Personalise a model, predict the client's own test samples and tell the scores alone: model and predictions stay
    /// with whoever does it.
    ScoreTest,
}

/// Data that a model is evaluated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationData {
    /// The client's test samples.
    Test,
    /// The training samples it held out.
    HeldOut,
}

/// What came of a task.
#[derive(Debug)]
pub struct Outcome {
    /// Which client's.
    pub client: usize,
    /// The result, or why there is none.
    pub result: Result<TaskResult, ClientError>,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskResult {
    /// Of [`Work::Train`].
    Trained(Box<Trained>),
    /// Of [`Work::ScoreCandidates`].
    CalibrationScores(CalibrationScores),
    /// Of [`Work::Evaluate`].
    Evaluated(Box<Evaluated>),
    /// Of [`Work::ScoreTest`].
    Scored(Scored),
}

/// A client's personal model and its predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The model, where it was wanted.
    pub model: Option<PersonalModel>,
    /// What its posterior is like.
    pub posterior: Option<PosteriorSummary>,
    /// Predictions for the data it was evaluated on; none where they are not finite.
    pub predictions: Option<Predictions>,
    /// How strange each of those samples is to the model; none where it does not know, or they are not test samples.
    pub strangeness: Option<Vec<f64>>,
    /// Class probabilities for the further inputs.
    pub further_probabilities: Vec<f64>,
}
