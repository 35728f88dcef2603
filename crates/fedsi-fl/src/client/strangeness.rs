//! Whether an input is like those that a client was trained on.

use fedsi_bayes::Strangeness;
use fedsi_bayes::strangeness::Responses;
use fedsi_data::{Targets, Task};

use super::{Client, ClientError, LocalData, PersonalModel};
use crate::parameters::{Parameters, doubles};

/// Rows scored at a time.
const ROWS: usize = 2048;

impl Client {
    /// What is usual among a client's training inputs, for the networks (modes) of its model. None where there are too few
    /// of them, or features that are not finite.
    ///
    /// Cost: two forward passes over them for each mode, and a few eigendecompositions.
    ///
    /// # Errors
    /// What the network's library reports.
    pub(super) fn fit_strangeness(
        &self,
        modes: &[&Parameters],
        data: &LocalData,
    ) -> Result<Option<Strangeness>, ClientError> {
        let responses = self.responses(modes, &data.train.inputs)?;
        let labels = match &data.train.targets {
            Targets::Classes(labels) => Some(labels.as_slice()),
            Targets::Values(_) => None,
        };
        Ok(Strangeness::fit(data.train.count, &doubles(&data.train.inputs), &responses, labels))
    }

    /// How strange each row is beside the client's training inputs, in standard deviations of theirs: larger is stranger,
    /// 0 is usual. None where the model does not know what is usual: it was saved by version 0.1, or fitted to
    /// fewer than ten samples.
    ///
    /// Cost: two forward passes, and about as much again.
    ///
    /// # Errors
    /// Inputs that are not whole rows; a model of another network.
    pub fn strangeness(
        &self,
        model: &PersonalModel,
        inputs: &[f32],
    ) -> Result<Option<Vec<f64>>, ClientError> {
        let Some(strangeness) = &model.strangeness else { return Ok(None) };
        let width = self.network.input_size();
        if !inputs.len().is_multiple_of(width) {
            return Err(ClientError::Inputs { found: inputs.len(), expected: width });
        }
        let mut all = Vec::with_capacity(inputs.len() / width);
        let modes: Vec<&Parameters> = model.modes.iter().map(|mode| &mode.parameters).collect();
        for rows in inputs.chunks(ROWS * width) {
            let responses = self.responses(&modes, rows)?;
            let scores = strangeness.scores(&doubles(rows), &responses);
            all.extend(scores.ok_or(ClientError::OtherFeatures)?);
        }
        Ok(Some(all))
    }

    /// What each mode makes of rows, at its values or means.
    fn responses(&self, modes: &[&Parameters], rows: &[f32]) -> Result<Vec<Responses>, ClientError> {
        let network = &self.network;
        let respond = |mode: &&Parameters| {
            let features = doubles(&network.features(mode.values(), rows)?);
            let logits = match self.task {
                Task::Classification { .. } => Some(doubles(&network.outputs(mode.values(), rows)?)),
                Task::Regression { .. } => None,
            };
            Ok(Responses { features, logits })
        };
        modes.iter().map(respond).collect()
    }
}
