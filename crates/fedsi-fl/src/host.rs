//! How clients become personal models: in the federation that trained, or in one that was saved.

use std::ops::Range;
use std::sync::Arc;

use fedsi_nn::Layout;
use fedsi_random::Purpose;

use crate::aggregate::Shared;
use crate::belief::{Belief, PersonalModel};
use crate::config::Config;
use crate::infer::{Inference, InferenceError, Inferred};
use crate::methods::{Phase, Procedure};
use crate::part::Part;
use crate::state::State;
use crate::work::{LocalData, LocalWork, ServerGaussian, Trade, Workbench};

/// What clients start from: the initial parameters, and what the server holds.
pub(crate) struct Start {
    /// The network as a client that never took part starts it.
    pub(crate) state: State,
    /// The server's Gaussian; none for point values.
    server: Option<Arc<ServerGaussian>>,
    /// Rounds completed.
    round: u64,
}

impl Start {
    /// The newest shared part, in its place among the initial parameters.
    pub(crate) fn new(layout: &Layout, part: Part, initial: &State, shared: &Shared, round: u64) -> Self {
        let (mut state, range) = (initial.clone(), part.range(layout));
        state.values[range.clone()].copy_from_slice(&shared.values);
        let Some(known) = &shared.variance else { return Self { state, server: None, round } };
        if let Some(own) = state.deviation.get_mut(range.clone()) {
            own.iter_mut().zip(known).for_each(|(deviation, variance)| *deviation = variance.sqrt());
        }
        let mut variance = vec![f32::INFINITY; layout.len()];
        variance[range].copy_from_slice(known);
        let server = Some(Arc::new(ServerGaussian { mean: state.values.clone(), variance }));
        Self { state, server, round }
    }

    /// A client's work from there, with what it kept in its place.
    pub(crate) fn work(
        &self,
        client: usize,
        purpose: Purpose,
        own: Option<(Range<usize>, &State)>,
        phases: &[Phase],
        inference: Option<&Inference>,
    ) -> LocalWork {
        let mut start = self.state.clone();
        if let Some((range, own)) = own {
            start.put(range, own);
        }
        LocalWork {
            client,
            // Work of a round belongs to the coming one.
            round: self.round + u64::from(purpose == Purpose::Batches),
            purpose,
            start,
            server: self.server.clone(),
            phases: phases.to_vec(),
            inference: inference.cloned(),
        }
    }
}

/// What makes personal models in a federation.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) config: &'a Config,
    pub(crate) procedure: &'a Procedure,
    pub(crate) trade: &'a Trade,
    /// The prior variance of personal models that the federation chose.
    pub(crate) chosen: Option<f64>,
}

impl Host<'_> {
    /// A client's model from what its work led to.
    pub(crate) fn model(&self, client: usize, state: State, inferred: Option<Inferred>) -> PersonalModel {
        let parameters = state.values.clone();
        let belief = match inferred {
            Some(inferred) => Belief::Laplace(Box::new(inferred)),
            None => {
                let mut rng = self.trade.streams().stream(Purpose::PriorDraws, client as u64, 0);
                Belief::of(state, &self.procedure.uncertainty, self.trade.network.layout(), &mut rng)
            }
        };
        PersonalModel { client, parameters, belief }
    }

    /// The personal model of a client that joins after training, from its own data alone; `own` is what it kept, if it
    /// ever took part.
    ///
    /// Cost: F epochs of tuning and one posterior.
    pub(crate) fn welcome(
        &self,
        client: usize,
        start: &Start,
        own: Option<&State>,
        data: &LocalData,
    ) -> Result<PersonalModel, InferenceError> {
        let phases = self.procedure.welcome(self.config);
        let inference = self.procedure.last_inference(self.chosen);
        let kept = self.procedure.kept.range(self.trade.network.layout());
        let own = own.map(|own| (kept, own));
        let work = start.work(client, Purpose::Tuning, own, &phases, inference.as_ref());
        let trained = self.trade.carry_out(work, data, &mut Workbench::default());
        Ok(self.model(client, trained.state, trained.posterior.transpose()?))
    }
}
