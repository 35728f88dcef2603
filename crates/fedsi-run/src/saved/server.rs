//! The server's state as it was saved: what a new client starts from.

use std::path::Path;
use std::sync::Arc;

use fedsi_data::{InputForm, Samples, TableEncoding, TargetForm};
use fedsi_fl::Checked;
use fedsi_fl::calibration::Calibration;
use fedsi_fl::client::LocalData;
use fedsi_fl::wire::{Download, SharedMode, mode_prefix, read_shared};
use serde::Deserialize;

use super::model::{Common, Description};
use super::{FileProblem, SavedError, SavedModel, SavedRun, damaged, read};
use crate::model_file::verify;
use crate::tensor_file::TensorFile;

/// What the server's metadata says.
#[derive(Deserialize)]
struct ServerMetadata {
    round: u64,
    /// Said in this form by runs of 0.1 alone.
    #[serde(default)]
    prior_variance: Option<f64>,
    #[serde(default)]
    calibration: Calibration,
    /// Not said by runs of 0.1, which have one.
    #[serde(default = "one")]
    modes: usize,
    model: Description,
    /// Not said by runs of 0.1.
    #[serde(default)]
    run: Option<String>,
}

/// Modes of a run that does not say how many.
const fn one() -> usize {
    1
}

/// A trained federation that new clients can join.
#[derive(Clone, Debug)]
pub struct SavedServer {
    common: Common,
    /// What a client receives that personalises a model.
    download: Download,
}

impl SavedServer {
    /// Reads the server's state of the run with this id.
    pub(super) fn read(path: &Path, config: &Checked, id: Option<&str>) -> Result<Self, SavedError> {
        let bytes = read(path)?;
        Self::parse(&bytes, config, id).map_err(damaged(path))
    }

    fn parse(bytes: &[u8], config: &Checked, id: Option<&str>) -> Result<Self, FileProblem> {
        let file = TensorFile::parse(bytes)?;
        if id.is_some() {
            file.verify()?;
        } else {
            verify(&file)?;
        }
        let ServerMetadata { round, prior_variance, calibration, modes, model, run } = file.entry()?;
        if run.as_deref() != id {
            return Err(FileProblem::OtherRun);
        }
        let common = Common::new(model, config)?;
        let layout = common.client.network().layout();
        let range = common.client.procedure().held().range(layout);
        let shared = |mode: usize| -> Result<SharedMode, FileProblem> {
            let file = file.within(&mode_prefix(mode));
            let mean = file.parameters(layout)?[range.clone()].to_vec();
            let shared = Arc::new(read_shared(&file, mean, "server.variance")?);
            Ok(SharedMode { mode, shared })
        };
        // As many as there are tensors for, whatever the metadata says.
        let modes = (0..modes).map(shared).collect::<Result<_, _>>()?;
        let prior_variance = calibration.prior_variance.or(prior_variance);
        let calibration = Calibration { prior_variance, ..calibration };
        if !calibration.is_sound() {
            return Err(FileProblem::Calibration);
        }
        let download = Download { calibration, ..Download::of_modes(round, modes) };
        Ok(Self { common, download })
    }

    /// How files become inputs of this federation's models.
    #[must_use]
    pub fn input_form<'a>(&'a self, run: &'a SavedRun) -> InputForm<'a> {
        self.common.input_form(run.config())
    }

    /// How the columns of a table become inputs, where the run learned from one.
    #[must_use]
    pub const fn encoding(&self) -> Option<&TableEncoding> {
        self.common.description.encoding.as_ref()
    }

    /// How files become targets.
    #[must_use]
    pub fn target_form(&self) -> TargetForm<'_> {
        self.common.target_form()
    }

    /// The personal model of a client that joins now, from its own data alone: what
    /// [`Simulation::join`](fedsi_fl::Simulation::join) does, to the bit. The key of its random draws is the number of
    /// the run's clients, which none of them has.
    ///
    /// Cost: the method's epochs of tuning and one posterior.
    ///
    /// # Errors
    /// A posterior that cannot be computed.
    pub fn join(self, run: &SavedRun, samples: Samples) -> Result<SavedModel, SavedError> {
        let Self { common, download } = self;
        let data = LocalData::all(samples);
        let model = common.client.join(run.clients().len(), &download, None, &data)?;
        Ok(SavedModel { common, model, ranges: None })
    }
}
