//! Scores of every client's personal model, by clients that keep model and predictions to themselves.

use std::sync::Arc;

use super::Coordinator;
use crate::client::{ClientError, Scored, TestScores};
use crate::error::SimulationError;
use crate::executor::{Outcome, TaskResult, Work};
use crate::scores::Scores;

/// What a client tells of its personal model.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTestScores {
    /// The client.
    pub client: usize,
    /// What it scored; none where there is a problem.
    pub scored: Option<Scored>,
    /// Why it has no scores, where its model could not be made, predicts values that are not finite, or it did not answer.
    pub problem: Option<String>,
}

impl ClientTestScores {
    /// Its scores, where it tells any.
    #[must_use]
    pub fn scores(&self) -> Option<&TestScores> {
        match &self.scored {
            Some(Scored::Scores(scores)) => Some(scores),
            Some(Scored::Withheld) | None => None,
        }
    }
}

/// What all clients tell of their personal models, in the order of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationScores {
    /// The clients.
    pub clients: Vec<ClientTestScores>,
    /// The scores of those that told any, together: see [`TestScores::pool`].
    pub pooled: Option<Scores>,
}

impl Coordinator {
    /// Asks every client to personalise a model, to predict its own test samples and to tell the scores, or only that it is
    /// done where the run hides clients. `each` has the clients as they come, in any order. Who has lost what it kept says
    /// so, and is scored as a new client when this is called again.
    ///
    /// # Errors
    /// What `each` says; an executor that cannot go on; no client that has a usable model.
    pub fn score(
        &mut self,
        mut each: impl FnMut(&ClientTestScores) -> Result<(), SimulationError>,
    ) -> Result<FederationScores, SimulationError> {
        let everyone: Vec<usize> = (0..self.clients).collect();
        let download = Arc::new(self.server.personal_download());
        let (mut clients, mut lost, mut first_problem) = (Vec::with_capacity(self.clients), Vec::new(), None);
        self.run_tasks(
            &everyone,
            &download,
            |_| Work::ScoreTest,
            |Outcome { client, result }| {
                let found = match result {
                    Ok(TaskResult::Scored(scored)) => Ok(scored),
                    Ok(
                        TaskResult::Trained(_) | TaskResult::CalibrationScores(_) | TaskResult::Evaluated(_),
                    ) => Err(ClientError::OtherResult),
                    Err(error) => Err(error),
                };
                let found = match found {
                    Ok(scored) => ClientTestScores { client, scored: Some(scored), problem: None },
                    Err(problem) => {
                        if matches!(problem, ClientError::LostState { .. }) {
                            lost.push(client);
                        }
                        let reason = problem.to_string();
                        tracing::warn!(client, "no scores: {reason}");
                        first_problem.get_or_insert((client, reason.clone(), problem.is_divergence()));
                        ClientTestScores { client, scored: None, problem: Some(reason) }
                    }
                };
                each(&found)?;
                clients.push(found);
                Ok(())
            },
        )?;
        self.forget(lost);
        clients.sort_by_key(|found| found.client);
        match first_problem {
            Some((client, reason, diverged)) if clients.iter().all(|found| found.problem.is_some()) => {
                Err(SimulationError::NoModels { client, reason, diverged })
            }
            _ => {
                let pooled = TestScores::pool(clients.iter().filter_map(ClientTestScores::scores));
                Ok(FederationScores { clients, pooled })
            }
        }
    }
}
