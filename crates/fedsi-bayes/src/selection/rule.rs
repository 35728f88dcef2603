//! What a selection rule is.

use std::fmt;
use std::ops::Range;

use fedsi_nn::Layout;
use rand::Rng;

use super::{Candidates, SelectionError, Subnetwork};

/// A way to choose a subnetwork of a given size.
///
/// The built-in ones are in [`rules`](super::rules); a rule of one's own implements this trait and joins a list,
/// [`Rules`](super::Rules), under its name:
///
/// ```
/// use std::sync::Arc;
///
/// use fedsi_bayes::{Candidates, RuleName, Rules, SelectionError, SelectionRule, Subnetwork};
///
/// /// The largest curvature.
/// #[derive(Debug)]
/// struct Curved;
///
/// impl SelectionRule for Curved {
///     fn name(&self) -> &str {
///         "curved"
///     }
///     fn summary(&self) -> &str {
///         "The parameters of the largest curvature."
///     }
///     fn select(
///         &self,
///         candidates: &Candidates<'_>,
///         size: usize,
///         _: &mut dyn rand::Rng,
///     ) -> Result<Subnetwork, SelectionError> {
///         candidates.largest(candidates.curvature().ggn.iter().copied(), size)
///     }
/// }
///
/// let mut rules = Rules::builtin();
/// rules.add(Arc::new(Curved))?;
/// assert_eq!(rules.find(&RuleName::from("curved"))?.name(), "curved");
/// # Ok::<(), fedsi_bayes::RuleNameError>(())
/// ```
pub trait SelectionRule: fmt::Debug + Send + Sync {
    /// How it is written in a config: `variance`, `layers:0,3.weight`. Two rules of the same name are taken to be
    /// equal.
    fn name(&self) -> &str;

    /// What it takes, in one sentence.
    fn summary(&self) -> &str;

    /// Whether the rule says by itself how many parameters it takes, whatever size is asked for.
    fn has_own_size(&self) -> bool {
        false
    }

    /// Whether it looks at the candidates' curvature. For a rule that does not, none is computed, which spares a backward pass
    /// for each output over all samples; [`Candidates::curvature`] has NaN for every parameter then.
    fn uses_curvature(&self) -> bool {
        true
    }

    /// How many of the parameters in `range` it would choose, asked for `size`: known before any of them is trained.
    ///
    /// # Errors
    /// A size of zero or above the number of candidates.
    fn check(&self, layout: &Layout, range: Range<usize>, size: usize) -> Result<usize, SelectionError> {
        let _ = layout;
        check_size(range.len(), size)
    }

    /// Chooses `size` of the candidates. A rule that draws takes all its random numbers from `rng`, in an order that
    /// follows from its arguments.
    ///
    /// # Errors
    /// What [`check`](Self::check) refuses, and reasons of the rule's own ([`SelectionError::Rule`]).
    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        rng: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError>;
}

impl PartialEq for dyn SelectionRule {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// Whether `size` of `candidates` parameters can be chosen; gives the size back.
pub(super) const fn check_size(candidates: usize, size: usize) -> Result<usize, SelectionError> {
    if size == 0 {
        return Err(SelectionError::Empty { candidates });
    }
    if size > candidates {
        return Err(SelectionError::TooLarge { size, candidates });
    }
    Ok(size)
}
