//! The server's state as it was saved: what a new client starts from.

use std::path::Path;

use fedsi_data::{InputForm, Samples, TargetForm};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::Deserialize;

use super::model::{Common, Description, about};
use super::{SavedError, SavedModel, SavedRun, damaged, read};
use crate::aggregate::Shared;
use crate::config::Checked;
use crate::files::{find, floats};
use crate::host::{Host, Start};
use crate::methods::Uncertainty;
use crate::state::State;
use crate::work::LocalData;

/// What the server's metadata says.
#[derive(Deserialize)]
struct About {
    round: u64,
    prior_variance: Option<f64>,
    model: Description,
}

/// A federation that has trained, and welcomes new clients.
#[derive(Clone, Debug)]
pub struct SavedServer {
    common: Common,
    /// The parameters a client starts from, with the deviations of what is trained as distributions.
    initial: State,
    shared: Shared,
    round: u64,
    chosen: Option<f64>,
}

impl SavedServer {
    pub(super) fn read(path: &Path, config: &Checked) -> Result<Self, SavedError> {
        let bytes = read(path)?;
        Self::parse(&bytes, config).map_err(|reason| damaged(path, reason))
    }

    fn parse(bytes: &[u8], config: &Checked) -> Result<Self, String> {
        let About { round, prior_variance, model } = about(bytes)?;
        let common = Common::new(model, config)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let layout = common.trade.network.layout();
        let mut values = Vec::with_capacity(layout.len());
        for tensor in layout.tensors() {
            if find(&tensors, &tensor.name, Dtype::F32)?.shape() != tensor.shape {
                return Err(format!("its `{}` is not of shape {:?}", tensor.name, tensor.shape));
            }
            values.extend(floats(&tensors, &tensor.name)?);
        }
        let range = common.procedure.shared.range(layout);
        let has_variance = tensors.tensor("server.variance").is_ok();
        let variance = has_variance.then(|| floats(&tensors, "server.variance")).transpose()?;
        if variance.as_ref().is_some_and(|variance| variance.len() != range.len()) {
            return Err("its `server.variance` is not of the shared part".to_owned());
        }
        let shared = Shared { values: values[range].to_vec(), variance };
        // What is shared comes from the server; the rest is as it was before the first round.
        let deviation = match &common.procedure.uncertainty {
            Uncertainty::MeanField(how) => vec![how.initial_deviation as f32; values.len()],
            Uncertainty::None | Uncertainty::Laplace(_) | Uncertainty::Samples(_) => Vec::new(),
        };
        let initial = State { values, deviation, samples: Vec::new() };
        Ok(Self { common, initial, shared, round, chosen: prior_variance })
    }

    /// How files become inputs of this federation's models.
    #[must_use]
    pub fn input_form<'a>(&'a self, run: &'a SavedRun) -> InputForm<'a> {
        self.common.input_form(run.config())
    }

    /// How files become targets.
    #[must_use]
    pub fn target_form(&self) -> TargetForm<'_> {
        self.common.target_form()
    }

    /// The personal model of a client that joins now, from its own data alone: what
    /// [`Simulation::welcome`](crate::Simulation::welcome) does, to the bit. The key of its random draws is the number of
    /// the run's clients, which none of them has.
    ///
    /// Cost: the method's epochs of tuning and one posterior.
    ///
    /// # Errors
    /// A posterior that cannot be computed.
    pub fn welcome(self, run: &SavedRun, samples: Samples) -> Result<SavedModel, SavedError> {
        let Self { common, initial, shared, round, chosen } = self;
        let data = LocalData::all(samples);
        let start =
            Start::new(common.trade.network.layout(), common.procedure.shared, &initial, &shared, round);
        let host = Host { config: run.config(), procedure: &common.procedure, trade: &common.trade, chosen };
        let model = host.welcome(run.clients().len(), &start, None, &data)?;
        let noise = common.trade.noise(&model.parameters, &data);
        Ok(SavedModel { common, model, noise })
    }
}
