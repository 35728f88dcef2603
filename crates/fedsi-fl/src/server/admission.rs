//! Which updates of a round the server accepts. Everything is checked before anything is used.

use std::collections::BTreeSet;

use super::exclusion::{Exclusion, LeftOut};
use super::robust::{norm, quick_distance};
use crate::parameters::SharedParameters;
use crate::wire::Upload;

/// No trained network has a parameter as large: its square overflows single precision.
pub(super) const MAX_VALUE: f32 = 1e18;

/// More training samples than any client has.
pub(super) const MAX_SAMPLES: usize = 1 << 40;

/// An update no longer than this share of the norm of the server's values is no outlier, however short the others are: it
/// moves the average of m updates by at most a m-th of that. Where training has all but converged most updates vanish, and
/// their median says nothing about what an honest one may be: those of FedRep on MNIST that still move do so by 1% to 2%
/// of the norm, the others by 0.01%.
const HARMLESS_SHARE: f64 = 0.1;

/// What a round's messages must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    /// Share of participants that must return a usable update.
    pub quorum: f64,
    /// Rounds in a row that may fall short of it through silence, delay and damage; one more is an error.
    pub patience: u64,
    /// How many times as far from the server's values as the median update one may be (or as far as a tenth of the norm
    /// of those values, where that is more), and how many times the server's standard deviation one may be; 0: any.
    pub outlier_factor: f64,
    /// Whether updates are compared with each other. With privacy they are not: what becomes of one client's update must
    /// not depend on another's.
    pub compare: bool,
}

/// What the server asked for.
#[derive(Clone, Copy, Debug)]
pub struct RoundRequest<'a> {
    /// The round.
    pub round: u64,
    /// Who was asked, ascending.
    pub participants: &'a [usize],
    /// What they were sent.
    pub shared: &'a SharedParameters,
    /// Whether they were asked for variances.
    pub variances_wanted: bool,
}

impl Admission {
    /// How many usable updates a round needs.
    #[must_use]
    pub fn needed(&self, participants: usize) -> usize {
        ((participants as f64 * self.quorum).ceil() as usize).max(1)
    }

    /// The usable updates, in the order they came, and everyone else with a reason. Cost: two passes over each.
    #[must_use]
    pub fn admit<'a>(
        &self,
        call: &RoundRequest<'_>,
        uploads: &'a [Upload],
    ) -> (Vec<&'a Upload>, Vec<LeftOut>) {
        let mut usable: Vec<&Upload> = Vec::with_capacity(uploads.len());
        let (mut left_out, mut known) = (Vec::new(), BTreeSet::new());
        for upload in uploads {
            let objection = if known.contains(&upload.client) {
                Some((Exclusion::Duplicate, "it had sent an update before; the first counts".to_owned()))
            } else {
                self.reason_to_refuse(call, upload)
            };
            match objection {
                Some((kind, reason)) => left_out.push(LeftOut::new(upload.client, kind, reason)),
                None => {
                    known.insert(upload.client);
                    usable.push(upload);
                }
            }
        }
        if self.compare && self.outlier_factor > 0.0 {
            self.refuse_outliers(call, &mut usable, &mut left_out);
        }
        (usable, left_out)
    }

    /// Why an update cannot be used, seen alone.
    fn reason_to_refuse(&self, call: &RoundRequest<'_>, upload: &Upload) -> Option<(Exclusion, String)> {
        if call.participants.binary_search(&upload.client).is_err() {
            return Some((Exclusion::Uninvited, "it was not asked for an update".to_owned()));
        }
        if upload.round != call.round {
            return Some((Exclusion::Stale, format!("its update is for round {}", upload.round)));
        }
        let size = call.shared.values().len();
        if upload.shared.len() != size {
            let reason = format!("it sent {} values, expected {size}", upload.shared.len());
            return Some((Exclusion::WrongShape, reason));
        }
        if !within(&upload.shared, MAX_VALUE) {
            let bad = |value: &f32| value.is_nan() || value.abs() > MAX_VALUE;
            let found = upload.shared.iter().enumerate().find(|(_, value)| bad(value));
            return found.map(|(index, value)| {
                let kind = if value.is_finite() { Exclusion::TooLarge } else { Exclusion::NotFinite };
                (kind, format!("value {index} of its update is {value}"))
            });
        }
        if upload.loss.is_some_and(|loss| !loss.is_finite()) {
            return Some((Exclusion::NotFinite, "its training loss is not finite".to_owned()));
        }
        if !(1..=MAX_SAMPLES).contains(&upload.samples) {
            return Some((Exclusion::BadSamples, format!("it reports {} training samples", upload.samples)));
        }
        let bad = |reason| (Exclusion::BadVariance, reason);
        match &upload.variances {
            Some(variances) if call.variances_wanted => match variances.check(size) {
                Err(error) => Some(bad(error.to_string())),
                Ok(()) => self.refuse_large_variance(call.shared, upload),
            },
            None if call.variances_wanted => Some(bad("it sent no variances".to_owned())),
            Some(_) => Some(bad("it sent variances that were not requested".to_owned())),
            None => None,
        }
    }

    /// A variance that no round of training explains: data narrows a distribution.
    fn refuse_large_variance(
        &self,
        shared: &SharedParameters,
        upload: &Upload,
    ) -> Option<(Exclusion, String)> {
        let (Some(before), Some(variances)) = (shared.variance(), &upload.variances) else { return None };
        let factor = self.outlier_factor * self.outlier_factor;
        let wide =
            |&(index, variance): &(usize, f32)| f64::from(variance) > factor * f64::from(before[index]);
        let (index, variance) = variances.pairs().find(|pair| self.outlier_factor > 0.0 && wide(pair))?;
        let reason =
            format!("the variance it sent of parameter {index} is {variance}, and was {}", before[index]);
        Some((Exclusion::TooLarge, reason))
    }

    /// Takes out updates that are much farther from the server's values than the median one (of an even number: the
    /// nearer of the two in the middle, so that one of two can be refused), and not harmless beside those values.
    fn refuse_outliers(
        &self,
        call: &RoundRequest<'_>,
        usable: &mut Vec<&Upload>,
        left_out: &mut Vec<LeftOut>,
    ) {
        let server_values = call.shared.values();
        let moved = |upload: &&Upload| quick_distance(&upload.shared, server_values);
        let norms: Vec<f64> = usable.iter().map(moved).collect();
        let mut sorted = norms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(&median), Some(&largest)) = (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.last())
        else {
            return;
        };
        // Where the typical update is none at all there is no scale to judge by.
        if median == 0.0 || largest <= self.outlier_factor * median {
            return;
        }
        let most = (self.outlier_factor * median).max(HARMLESS_SHARE * norm(server_values));
        let mut norms = norms.into_iter();
        usable.retain(|upload| {
            let norm = norms.next().unwrap_or(0.0);
            if norm > most {
                let reason = format!("its update has a norm of {norm:.3e}, and the median one {median:.3e}");
                left_out.push(LeftOut::new(upload.client, Exclusion::TooLarge, reason));
            }
            norm <= most
        });
    }
}

/// Whether all values are numbers of at most this size. No early exit: it runs in vectors, and the answer is almost
/// always yes.
fn within(values: &[f32], most: f32) -> bool {
    values.iter().fold(true, |good, value| good & (value.abs() <= most))
}
