//! Personal models scored on training data that was held out: what settings are chosen by.

use fedsi_random::Purpose;

use super::Simulation;
use crate::RunError;
use crate::predict::Predictions;
use crate::record::Scores;
use crate::work::Trained;

impl Simulation {
    /// Personalises every client as at the end of a run, posterior included, and scores the personal models on
    /// the data that clients held out (`validation.fraction`), pooled. Test data is not touched.
    ///
    /// Without held-out data, and where any client's model predicts no numbers, the scores are empty: settings
    /// under which that happens are not to be chosen.
    ///
    /// Cost: as evaluating, less the test data. Memory: a few clients at a time, and a posterior a thread.
    ///
    /// # Errors
    /// Clients' state that is lost.
    pub fn validate(&self) -> Result<Scores, RunError> {
        let clients: Vec<usize> = (0..self.federation.clients()).collect();
        let predictor = self.predictor();
        let inference = self.procedure.last_inference(self.chosen);
        let mut pooled = Predictions::none(predictor.task);
        for batch in clients.chunks(4 * self.executor.threads()) {
            let cohort =
                self.cohort(batch, Purpose::Tuning, &self.procedure.personalise, inference.as_ref())?;
            let predicted = self.executor.each(cohort, |trained, data, _| {
                let Trained { client, state, posterior, .. } = trained;
                let inferred = posterior.transpose().map_err(|error| error.to_string())?;
                let model = self.model(client, state, inferred);
                let noise = predictor.trade.noise(&model.parameters, data);
                let predictions = predictor.predict(&model, &noise, &data.held_out);
                if predictions.are_finite() {
                    Ok((client, predictions))
                } else {
                    Err(format!("the personal model of client {client} predicts values that are not finite"))
                }
            });
            for outcome in predicted {
                match outcome {
                    Ok((_, predictions)) => pooled.append(predictions),
                    Err(problem) => {
                        tracing::info!("no held-out scores: {problem}");
                        return Ok(Predictions::none(predictor.task).scores());
                    }
                }
            }
        }
        Ok(pooled.scores())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fedsi_data::{DatasetName, Federation, Samples, Scaling, Size, Split, Task};

    use super::*;
    use crate::Config;
    use crate::methods::METHODS;

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

    fn validated(method: &str, fraction: f64) -> (Scores, usize) {
        let mut config = Config::defaults(method, DatasetName::Digits, Size::Small);
        config.partition.clients = 3;
        (config.federation.participants, config.training.epochs, config.tuning.epochs) = (3, 2, 2);
        config.rounds = 1;
        config.validation.fraction = fraction;
        let config = config.check().unwrap();
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

    #[test]
    fn nothing_held_out_is_nothing_scored() {
        assert_eq!(validated("fedavg", 0.0).0.nll(), None);
    }
}
