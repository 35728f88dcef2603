//! What a client kept between rounds: the parameters themselves, or where they lie.

use super::Parameters;

/// What a client kept between rounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// The parameters themselves.
    Parameters(Parameters),
    /// They lie at the client's own site, which alone has them. The round in which they were stored is their version.
    AtSite {
        /// The round.
        round: u64,
    },
}

impl Kept {
    /// The parameters, where they are here.
    #[must_use]
    pub const fn parameters(&self) -> Option<&Parameters> {
        match self {
            Self::Parameters(parameters) => Some(parameters),
            Self::AtSite { .. } => None,
        }
    }
}

impl From<Parameters> for Kept {
    fn from(parameters: Parameters) -> Self {
        Self::Parameters(parameters)
    }
}
