//! Personal models scored on training data that was held out: what settings are chosen by.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Simulation;
use crate::client::{ClientError, Predictions};
use crate::error::SimulationError;
use crate::executor::{EvaluationData, Outcome, TaskResult, Work};
use crate::scores::Scores;

impl Simulation {
    /// Personalises every client that is not novel as at the end of a run, posterior included, and scores the personal models on
    /// the data that clients held out (`validation.fraction`), pooled. Test data is not touched.
    ///
    /// Without held-out data, and where any client's predictions are not finite, the scores are empty: settings
    /// under which that happens are not to be chosen.
    ///
    /// Cost: as evaluating, less the test data. Memory: as many clients as are worked on at a time, and all predictions.
    ///
    /// # Errors
    /// Clients' state that is lost.
    pub fn validate(&self) -> Result<Scores, SimulationError> {
        let novel = &self.server().settings().novel_clients;
        let clients: Vec<usize> =
            (0..self.federation.clients()).filter(|client| novel.binary_search(client).is_err()).collect();
        let work = |_| Work::Evaluate {
            on: EvaluationData::HeldOut,
            further_inputs: Vec::new(),
            return_model: false,
        };
        let mut found: BTreeMap<usize, Predictions> = BTreeMap::new();
        let download = Arc::new(self.server().personal_download());
        self.coordinator.run_tasks(&clients, &download, work, |outcome| {
            let Outcome { client, result } = outcome;
            let problem = match result {
                Ok(TaskResult::Evaluated(evaluated)) => match evaluated.predictions {
                    Some(predictions) => {
                        found.insert(client, predictions);
                        return Ok(());
                    }
                    None => ClientError::PredictionsDiverged,
                },
                Ok(TaskResult::Trained(_) | TaskResult::CalibrationScores(_) | TaskResult::Scored(_)) => {
                    ClientError::OtherResult
                }
                Err(error) => error,
            };
            tracing::info!(client, "no held-out scores: {problem}");
            Ok(())
        })?;
        let mut pooled = Predictions::none(self.client().task());
        if found.len() < clients.len() {
            return Ok(pooled.scores());
        }
        for predictions in found.into_values() {
            pooled.append(predictions)?;
        }
        Ok(pooled.scores())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fedsi_data::{Federation, Samples, Scaling, Size, Split, Task};

    use super::*;
    use crate::methods::METHODS;
    use crate::{Checked, Config};

    /// Counts who asks for test samples.
    struct Guarded(Box<dyn Federation>, Arc<AtomicUsize>);

    impl Federation for Guarded {
        fn clients(&self) -> usize {
            self.0.clients()
        }
        fn client_name(&self, client: usize) -> Option<&str> {
            self.0.client_name(client)
        }
        fn input_shape(&self) -> &[usize] {
            self.0.input_shape()
        }
        fn task(&self) -> Task {
            self.0.task()
        }
        fn class_names(&self) -> Option<&[String]> {
            self.0.class_names()
        }
        fn count(&self, client: usize, split: Split) -> usize {
            self.0.count(client, split)
        }
        fn samples(&self, client: usize, split: Split) -> Samples {
            self.1.fetch_add(usize::from(split == Split::Test), Ordering::Relaxed);
            self.0.samples(client, split)
        }
        fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
            self.0.label_counts(client, split)
        }
        fn target_scaling(&self) -> Option<&Scaling> {
            self.0.target_scaling()
        }
    }

    fn config(method: &str, fraction: f64) -> Checked {
        let mut config = Config::defaults(method, "digits", Size::Small).unwrap();
        config.partition.clients = 3;
        (config.federation.participants, config.training.epochs, config.tuning.epochs) = (3, 2, 2);
        config.rounds = 1;
        config.validation.fraction = fraction;
        config.check().unwrap()
    }

    fn validated(method: &str, fraction: f64) -> (Scores, usize) {
        let config = config(method, fraction);
        let asked = Arc::new(AtomicUsize::new(0));
        let data = fedsi_data::open(&config.data, &config.partition, config.seed).unwrap();
        let mut simulation = Simulation::new(&config, Arc::new(Guarded(data, Arc::clone(&asked)))).unwrap();
        simulation.round().unwrap();
        (simulation.validate().unwrap(), asked.load(Ordering::Relaxed))
    }

    #[test]
    fn held_out_scores_need_no_test_data() {
        for method in METHODS {
            let (scores, asked) = validated(method.name, 0.2);
            assert!(scores.nll().is_some_and(f64::is_finite), "{}: {scores:?}", method.name);
            assert_eq!(asked, 0, "{} looked at test data", method.name);
        }
    }

    /// Scores of rounds are only looked at: without them everything else is the same.
    #[test]
    fn rounds_without_scores_train_the_same() {
        for method in ["fedavg", "pfedbayes"] {
            let scored = |config: &Checked| {
                let data = fedsi_data::open(&config.data, &config.partition, config.seed).unwrap();
                let mut simulation = Simulation::new(config, Arc::from(data)).unwrap();
                let validation = simulation.round().unwrap().validation;
                (validation.is_some(), simulation.validate().unwrap())
            };
            let (with, without) = (config(method, 0.2), config(method, 0.2).without_round_scores());
            let ((had, with), (has, without)) = (scored(&with), scored(&without));
            assert!(had && !has, "{method}: scores of a round where they are wanted alone");
            assert_eq!(with, without, "{method}");
        }
    }

    #[test]
    fn nothing_held_out_is_nothing_scored() {
        assert_eq!(validated("fedavg", 0.0).0.nll(), None);
    }
}
