//! A client's own model, and what it believes of its parameters.

use fedsi_nn::Layout;
use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::infer::Inferred;
use crate::methods::Uncertainty;
use crate::record::{PosteriorKind, PosteriorSummary};
use crate::state::State;

/// A client's own model: parameters and what is believed around them.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalModel {
    /// Whose: the key of its draws.
    pub client: usize,
    /// All parameters: values, or means.
    pub parameters: Vec<f32>,
    /// The distribution around them.
    pub belief: Belief,
}

/// What a client believes of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Belief {
    /// Their values, and no more.
    Point,
    /// A Gaussian over some of them, under which the linearised network predicts.
    Laplace(Box<Inferred>),
    /// An independent normal for each, around the parameters.
    MeanField {
        /// Standard deviations.
        deviation: Vec<f32>,
    },
    /// Samples of the head; the body is a point.
    Samples {
        /// Heads, one after another.
        heads: Vec<f32>,
    },
}

impl Belief {
    /// The belief that trained parameters carry: a method's that infers nothing after training. A head that was never
    /// sampled is drawn from its prior.
    pub(crate) fn of(state: State, uncertainty: &Uncertainty, layout: &Layout, rng: &mut impl Rng) -> Self {
        match uncertainty {
            Uncertainty::None | Uncertainty::Laplace(_) => Self::Point,
            Uncertainty::MeanField(_) => Self::MeanField { deviation: state.deviation },
            Uncertainty::Samples(_) if !state.samples.is_empty() => Self::Samples { heads: state.samples },
            Uncertainty::Samples(prior) => {
                let deviation = prior.prior_variance.sqrt();
                let draw = |_| {
                    let draw: f64 = StandardNormal.sample(rng);
                    (deviation * draw) as f32
                };
                Self::Samples { heads: (0..prior.count * layout.head().len()).map(draw).collect() }
            }
        }
    }

    /// The Gaussian over a subnetwork, where it is one.
    #[must_use]
    pub const fn laplace(&self) -> Option<&Inferred> {
        match self {
            Self::Laplace(inferred) => Some(inferred),
            Self::Point | Self::MeanField { .. } | Self::Samples { .. } => None,
        }
    }

    /// Its figures; none for points.
    #[must_use]
    pub fn summary(&self, layout: &Layout) -> Option<PosteriorSummary> {
        match self {
            Self::Point => None,
            Self::Laplace(inferred) => Some(inferred.summary()),
            Self::MeanField { deviation } => {
                let squares: f64 = deviation.iter().map(|&one| f64::from(one).powi(2)).sum();
                let variance = squares / deviation.len().max(1) as f64;
                Some(PosteriorSummary::plain(PosteriorKind::MeanField, deviation.len(), variance))
            }
            Self::Samples { heads } => {
                let size = layout.head().len();
                let count = heads.len() / size.max(1);
                let variance = |index: usize| {
                    let column = || heads.iter().skip(index).step_by(size).map(|&value| f64::from(value));
                    let mean = column().sum::<f64>() / count as f64;
                    column().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64
                };
                let mean = (0..size).map(variance).sum::<f64>() / size.max(1) as f64;
                Some(PosteriorSummary::plain(PosteriorKind::Samples, size, mean))
            }
        }
    }
}
