//! Personal models: made, evaluated, and made for clients that join later.

use fedsi_data::Split;
use fedsi_random::Purpose;

use super::Simulation;
use crate::RunError;
use crate::belief::{Belief, PersonalModel};
use crate::host::Host;
use crate::infer::{InferenceError, Inferred};
use crate::predict::Predictions;
use crate::predictor::Predictor;
use crate::record::PosteriorSummary;
use crate::state::State;
use crate::work::{LocalData, Trained};

/// A client at the end of a run.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its personal model; what it believes is there for `save` alone, and gone after that.
    pub model: PersonalModel,
    /// Regression: the standard deviation of the noise of each target, in units of the standardised targets.
    pub noise: Vec<f64>,
    /// What that posterior was like.
    pub posterior: Option<PosteriorSummary>,
    /// Its test samples.
    pub samples: usize,
    /// What that model says of them; nothing where it diverged.
    pub predictions: Predictions,
}

impl Simulation {
    /// How personal models of this run predict.
    #[must_use]
    pub fn predictor(&self) -> Predictor<'_> {
        Predictor {
            trade: self.executor.trade(),
            task: self.federation.task(),
            scaling: self.federation.target_scaling(),
            uncertainty: &self.procedure.uncertainty,
        }
    }

    /// A client's model from what its work led to.
    pub(super) fn model(&self, client: usize, state: State, inferred: Option<Inferred>) -> PersonalModel {
        self.host().model(client, state, inferred)
    }

    /// The personal model of a client that joins after training, from its own data alone: the newest shared
    /// part, tuned, with a posterior where the method has one. `client` is the key of its random draws: a number
    /// that no other client has.
    ///
    /// Cost: F epochs of tuning and one posterior; the federation is not touched.
    ///
    /// # Errors
    /// A posterior that cannot be computed.
    pub fn welcome(&self, client: usize, data: &LocalData) -> Result<PersonalModel, InferenceError> {
        let own = self.personal.get(client).map_err(|error| InferenceError::State(error.to_string()))?;
        self.host().welcome(client, &self.start(), own.as_deref(), data)
    }

    fn host(&self) -> Host<'_> {
        Host {
            config: &self.config,
            procedure: &self.procedure,
            trade: self.executor.trade(),
            chosen: self.chosen,
        }
    }

    /// Personalises every client and predicts its test samples. `save` sees each client on the thread that
    /// worked for it; then `each` has them one by one, in their order, without their posteriors. Memory: a few
    /// clients at a time, and a posterior a thread.
    ///
    /// A client whose model predicts no numbers is named in the log, and has no predictions.
    ///
    /// # Errors
    /// What `save` and `each` say; no client whose model predicts numbers; clients' state that is lost.
    pub fn evaluate(
        &self,
        save: impl Fn(&Evaluated) -> Result<(), RunError> + Sync,
        mut each: impl FnMut(Evaluated) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let clients: Vec<usize> = (0..self.federation.clients()).collect();
        let predictor = self.predictor();
        let inference = self.procedure.last_inference(self.chosen);
        let mut diverging = 0;
        for batch in clients.chunks(4 * self.executor.threads()) {
            let cohort =
                self.cohort(batch, Purpose::Tuning, &self.procedure.personalise, inference.as_ref())?;
            let evaluated = self.executor.each(cohort, |trained, data, _| -> Result<_, RunError> {
                let Trained { client, state, posterior, .. } = trained;
                let test = self.federation.samples(client, Split::Test);
                let (inferred, mut problem) = match posterior.transpose() {
                    Ok(inferred) => (inferred, None),
                    Err(error) => (None, Some(error.to_string())),
                };
                let model = self.model(client, state, inferred);
                let noise = predictor.trade.noise(&model.parameters, data);
                let mut predictions = predictor.predict(&model, &noise, &test);
                if !predictions.are_finite() {
                    problem = Some("its personal model predicts values that are not finite".to_owned());
                }
                if problem.is_some() {
                    predictions = Predictions::none(predictor.task);
                }
                let posterior = model.belief.summary(self.network().layout());
                let mut evaluated = Evaluated { model, noise, posterior, samples: test.count, predictions };
                save(&evaluated)?;
                evaluated.model.belief = Belief::Point;
                Ok((evaluated, problem))
            });
            for outcome in evaluated {
                let (evaluated, problem) = outcome?;
                if let Some(problem) = problem {
                    tracing::warn!(client = evaluated.model.client, "it has no predictions: {problem}");
                    diverging += 1;
                }
                each(evaluated)?;
            }
        }
        if diverging == clients.len() {
            return Err(RunError::Diverged);
        }
        Ok(())
    }
}
