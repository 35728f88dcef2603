//! Why a client has no result.

use thiserror::Error;

use crate::network::{NetworkFailure, TrainingError, UnsupportedTraining};
use crate::parameters::KindError;

/// Why a client could not train, personalise or predict. Each message is one line about the client, "it".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Training diverged.
    #[error("its parameters are not finite")]
    Diverged,
    /// What the client would keep is not finite.
    #[error("its personal part is not finite")]
    PersonalPartDiverged,
    /// The loss of its training is not finite.
    #[error("its training loss is not finite")]
    LossDiverged,
    /// Its predictions are not finite.
    #[error("its personal model predicts values that are not finite")]
    PredictionsDiverged,
    /// There is no data to score candidates on.
    #[error("it has no samples set aside to score candidates on")]
    NothingSetAside,
    /// It was asked to score candidates, and sent none.
    #[error("the download has no candidates to score")]
    NoCandidates,
    /// A mode that the method does not have.
    #[error("the download is of mode {mode}, and the method has {modes}")]
    UnknownMode {
        /// The mode.
        mode: usize,
        /// How many there are.
        modes: usize,
    },
    /// Not as many modes as the work is for.
    #[error("the download has the shared parts of {found} modes, expected {expected}")]
    OtherModes {
        /// How many it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// What it received does not fit the method or the network.
    #[error("the download does not fit: {0}")]
    OtherDownload(KindError),
    /// What it kept does not fit the method or the network.
    #[error("its kept parameters do not fit: {0}")]
    OtherKept(KindError),
    /// The method needs the server's Gaussian, and the server holds points.
    #[error("the method needs a Gaussian from the server, and the server sent point values")]
    NoServerGaussian,
    /// The method infers no posterior.
    #[error("the method infers no posterior")]
    NoPosterior,
    /// Parameters of another kind than the phase trains.
    #[error("a phase cannot train its parameters: {0}")]
    OtherParameters(KindError),
    /// Data and task do not fit.
    #[error("its data are {found}, and the task is {task}")]
    OtherData {
        /// What the data are.
        found: &'static str,
        /// What is to be predicted.
        task: &'static str,
    },
    /// It has no training samples.
    #[error("it has no training samples")]
    NoSamples,
    /// Inputs that are not whole samples, or not as many as targets.
    #[error("its inputs are {found} values, expected {expected}")]
    Inputs {
        /// How many there are.
        found: usize,
        /// How many there must be, or a multiple of which.
        expected: usize,
    },
    /// A class that the network has no output for.
    #[error("a sample's class is {label}, and there are {classes} classes")]
    Label {
        /// The class.
        label: u32,
        /// How many there are.
        classes: usize,
    },
    /// A client that the data does not have.
    #[error("there is no client {client}: the data has {clients} clients")]
    UnknownClient {
        /// The client asked for.
        client: usize,
        /// How many there are.
        clients: usize,
    },
    /// Its statistics of training inputs are of other features.
    #[error("what it knows of its training inputs is of another network")]
    OtherFeatures,
    /// A model without draws to average over.
    #[error("its model has no draws to average over")]
    NoDraws,
    /// The network's library failed.
    #[error(transparent)]
    Network(#[from] NetworkFailure),
    /// The network does not offer a kind of training.
    #[error(transparent)]
    Training(#[from] UnsupportedTraining),
    /// The posterior cannot be computed.
    #[error("its posterior cannot be computed: {0}")]
    Posterior(#[from] fedsi_bayes::LaplaceError),
    /// Its site has not the version of what it kept that the work is to start from.
    #[error("it has lost what it kept in round {expected}{}", newest(*found))]
    LostState {
        /// The version that was asked for.
        expected: u64,
        /// The newest that its site has, if any.
        found: Option<u64>,
    },
    /// Its site does not do work of this kind, because of what the result would tell.
    #[error("its site does not {0}")]
    Refused(&'static str),
    /// Its site cannot store what it keeps.
    #[error("its site could not store its state; its log says why")]
    NotStored,
    /// Its site cannot read what it keeps, which is not lost.
    #[error("its site could not read its state; its log says why")]
    NotRead,
    /// What came from its site is no answer to what it was asked.
    #[error("its answer cannot be used: {0}")]
    Unreadable(String),
    /// An executor returned no outcome for it.
    #[error("it did not answer")]
    NoAnswer,
    /// An executor returned the result of another task.
    #[error("the executor returned the result of another task")]
    OtherResult,
    /// Reported by a client elsewhere, as text.
    #[error("{reason}")]
    Remote {
        /// What it reported.
        reason: String,
        /// Whether its training diverged.
        diverged: bool,
    },
}

/// What a site has in place of the version that was asked for.
fn newest(found: Option<u64>) -> String {
    found.map_or_else(
        || "; its site has no state".to_owned(),
        |round| format!("; the newest state its site has is of round {round}"),
    )
}

impl From<TrainingError> for ClientError {
    fn from(error: TrainingError) -> Self {
        match error {
            TrainingError::Unsupported(what) => Self::Training(what),
            TrainingError::Failed(failure) => Self::Network(failure),
        }
    }
}

impl ClientError {
    /// What a site tells of it elsewhere: no text of other libraries or the system, no path and no value of its data.
    pub(crate) fn told(self) -> Self {
        let diverged = self.is_divergence();
        let remote =
            |reason: &str| Self::Remote { reason: format!("{reason}; its site's log says why"), diverged };
        match self {
            Self::Network(NetworkFailure { kind: Some(kind), .. }) => {
                let kind: String =
                    kind.chars().filter(|one| one.is_alphanumeric() || *one == '_').take(64).collect();
                remote(&format!("its network failed ({kind})"))
            }
            Self::Network(_) => remote("its network failed"),
            Self::Posterior(_) => remote("its posterior cannot be computed"),
            Self::Label { .. } => remote("a sample has a class that the network has no output for"),
            Self::Inputs { .. } => remote("its inputs are not whole samples, or not as many as targets"),
            other => other,
        }
    }

    /// Whether training, or a posterior of what it led to, diverged: another try would again.
    #[must_use]
    pub const fn is_divergence(&self) -> bool {
        matches!(
            self,
            Self::Diverged
                | Self::PersonalPartDiverged
                | Self::LossDiverged
                | Self::PredictionsDiverged
                | Self::Posterior(_)
                | Self::Remote { diverged: true, .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_other_libraries_errors_the_kind_alone_is_told() {
        let told = |kind: Option<&str>| {
            let (kind, source) = (kind.map(str::to_owned), "KeyError: 'patient 17'".into());
            ClientError::from(NetworkFailure { kind, source }).told().to_string()
        };
        assert_eq!(told(Some("KeyError")), "its network failed (KeyError); its site's log says why");
        assert_eq!(told(None), "its network failed; its site's log says why");
        let posterior = fedsi_bayes::LaplaceError::NoFiniteScore;
        let posterior = ClientError::from(posterior).told();
        assert_eq!(posterior.to_string(), "its posterior cannot be computed; its site's log says why");
        assert!(posterior.is_divergence(), "what follows from it stays");
        assert!(!ClientError::Label { label: 77, classes: 3 }.told().to_string().contains("77"));
        assert_eq!(ClientError::Diverged.told().to_string(), ClientError::Diverged.to_string());
    }
}
