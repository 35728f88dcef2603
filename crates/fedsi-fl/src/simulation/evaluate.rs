//! Personal models of all clients, and their predictions.

use std::sync::Arc;

use fedsi_data::{Split, Task};

use super::Simulation;
use crate::client::{ClientError, OtherTask, PersonalModel, PosteriorSummary, Predictions};
use crate::error::SimulationError;
use crate::executor::{Evaluated, EvaluationData, Outcome, TaskResult, Work};
use crate::scores::Scores;

/// What is wanted of an evaluation besides predictions for the test samples.
pub struct EvaluationRequest<'a> {
    /// The first client to evaluate: those before it are done.
    pub first: usize,
    /// Whether the personal models themselves are wanted.
    pub models: bool,
    /// More inputs that a client's model is to predict.
    pub further_inputs: &'a (dyn Fn(usize) -> Vec<f32> + Send + Sync),
}

/// Every client at the end of a run, in the order of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// What is predicted.
    pub task: Task,
    /// The clients.
    pub clients: Vec<ClientEvaluation>,
}

impl Evaluation {
    /// The scores of the run: accuracy is the mean over clients, everything else is of all predictions together.
    /// Copies the predictions once.
    ///
    /// # Errors
    /// Predictions of another task.
    pub fn scores(&self) -> Result<Scores, OtherTask> {
        let mut pooled = Predictions::none(self.task);
        for client in &self.clients {
            pooled.append(client.predictions.clone())?;
        }
        let by_client: Vec<Scores> = self.clients.iter().map(|client| client.predictions.scores()).collect();
        Ok(pooled.scores().with_mean_accuracy(&by_client))
    }
}

/// A client at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvaluation {
    /// The client.
    pub client: usize,
    /// Its test samples.
    pub samples: usize,
    /// Its personal model, where it was wanted and could be made.
    pub model: Option<PersonalModel>,
    /// What its posterior is like.
    pub posterior: Option<PosteriorSummary>,
    /// What the model predicts of the test samples; nothing where that is not finite, or there is no model.
    pub predictions: Predictions,
    /// Why there are no predictions, where the model could not be made or predicts values that are not finite.
    pub problem: Option<String>,
    /// How strange each test sample is to the model; none where it does not know.
    pub strangeness: Option<Vec<f64>>,
    /// Class probabilities for the further inputs.
    pub further_probabilities: Vec<f64>,
}

impl Simulation {
    /// Trains the rounds that the config asks for and that are left, then evaluates every client, with its personal
    /// model. Memory: all models and predictions; [`Self::round`] and [`Self::evaluate`] need no more than is at work.
    ///
    /// # Errors
    /// As [`Self::round`] and [`Self::evaluate`].
    pub fn run(&mut self) -> Result<Evaluation, SimulationError> {
        while self.server().round() < self.rounds as u64 {
            self.round()?;
        }
        let mut clients = Vec::with_capacity(self.federation.clients());
        let request = EvaluationRequest { first: 0, models: true, further_inputs: &|_| Vec::new() };
        self.evaluate(&request, |client| {
            clients.push(client);
            Ok(())
        })?;
        clients.sort_by_key(|client| client.client);
        Ok(Evaluation { task: self.client().task(), clients })
    }

    /// Personalises every client and predicts its test samples. `each` has the clients as they come, in any order.
    /// Memory: as many clients as are worked on at a time.
    ///
    /// A client whose model predicts values that are not finite is named in the log, and has no predictions.
    ///
    /// # Errors
    /// What `each` says; no client whose model predicts finite values, where all are evaluated; clients' state that is
    /// lost.
    pub fn evaluate(
        &self,
        request: &EvaluationRequest<'_>,
        mut each: impl FnMut(ClientEvaluation) -> Result<(), SimulationError>,
    ) -> Result<(), SimulationError> {
        let clients: Vec<usize> = (request.first..self.federation.clients()).collect();
        let work = |client| Work::Evaluate {
            on: EvaluationData::Test,
            further_inputs: (request.further_inputs)(client),
            return_model: request.models,
        };
        let (mut failed, mut first_problem) = (0, None);
        let download = Arc::new(self.server().personal_download());
        self.coordinator.run_tasks(&clients, &download, work, |outcome| {
            let Outcome { client, result } = outcome;
            let samples = self.federation.count(client, Split::Test);
            let nothing = Predictions::none(self.client().task());
            let (evaluated, problem) = match result {
                Ok(TaskResult::Evaluated(evaluated)) => {
                    let problem = evaluated.predictions.is_none().then_some(ClientError::PredictionsDiverged);
                    (Some(*evaluated), problem)
                }
                Ok(TaskResult::Trained(_) | TaskResult::CalibrationScores(_) | TaskResult::Scored(_)) => {
                    (None, Some(ClientError::OtherResult))
                }
                Err(error) => (None, Some(error)),
            };
            let reason = problem.as_ref().map(ToString::to_string);
            if let Some(problem) = problem {
                tracing::warn!(client, "no predictions: {problem}");
                failed += 1;
                first_problem.get_or_insert((client, problem));
            }
            let evaluation = match evaluated {
                Some(Evaluated { model, posterior, predictions, strangeness, further_probabilities }) => {
                    ClientEvaluation {
                        client,
                        samples,
                        model,
                        posterior,
                        strangeness: strangeness.filter(|_| predictions.is_some()),
                        predictions: predictions.unwrap_or(nothing),
                        problem: reason,
                        further_probabilities,
                    }
                }
                None => ClientEvaluation {
                    client,
                    samples,
                    model: None,
                    posterior: None,
                    predictions: nothing,
                    problem: reason,
                    strangeness: None,
                    further_probabilities: Vec::new(),
                },
            };
            each(evaluation)
        })?;
        match first_problem {
            Some((client, problem)) if request.first == 0 && failed == clients.len() => {
                let (reason, diverged) = (problem.to_string(), problem.is_divergence());
                Err(SimulationError::NoModels { client, reason, diverged })
            }
            _ => Ok(()),
        }
    }
}
