//! What a method would tell of clients' data beside the shared part, whose noise does not cover it.

use std::fmt;

use super::Procedure;

/// What a method lets the server know of clients' data besides their versions of the shared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// Losses by which the prior variance of personal models is chosen (`auto`).
    PriorSearch,
    /// Losses by which the temperature is chosen (`auto`).
    TemperatureSearch,
}

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PriorSearch => {
                "this method chooses a prior variance (auto) by the losses of clients, which would become known without \
                 noise; give a number, as in fedsi.prior_variance=1"
            }
            Self::TemperatureSearch => {
                "a temperature is chosen (auto) by the losses of clients, which would become known without noise; give a \
                 number, as in calibration.temperature=1"
            }
        })
    }
}

impl Procedure {
    /// What the method lets the server know of clients' data besides their versions of the shared part, which alone are
    /// clipped and noised: with privacy it is refused. Everything that a declaration can ask of clients is looked at here.
    #[must_use]
    pub fn unprotected(&self) -> Option<Unprotected> {
        self.searches_prior_variance().then_some(Unprotected::PriorSearch)
    }
}
