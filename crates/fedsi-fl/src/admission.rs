//! Which messages of a round the server believes. Everything is checked before anything is used.

use crate::aggregate::Shared;
use crate::exclusion::{Exclusion, LeftOut};
use crate::message::Upload;
use crate::robust::distance;

/// No trained network has a parameter as large: its square overflows single precision.
const MOST_VALUE: f32 = 1e18;

/// More training samples than any client has.
const MOST_SAMPLES: usize = 1 << 40;

/// What a round's messages must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    /// Share of participants that must return a usable update.
    pub quorum: f64,
    /// Rounds in a row that may fall short of it through silence, delay and damage; one more is an error.
    pub patience: u64,
    /// How many times as far from the server's values as the median update one may be, and how many times the server's
    /// standard deviation one may be; 0: any.
    pub largest: f64,
    /// Whether updates are compared with each other. With privacy they are not: what becomes of one client's update must
    /// not depend on another's.
    pub compare: bool,
}

/// What the server asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The round.
    pub round: u64,
    /// Who was asked, ascending.
    pub participants: &'a [usize],
    /// What they were sent.
    pub shared: &'a Shared,
    /// Whether they were asked for variances.
    pub wants_spread: bool,
}

impl Admission {
    /// How many usable updates a round needs.
    #[must_use]
    pub fn needed(&self, participants: usize) -> usize {
        ((participants as f64 * self.quorum).ceil() as usize).max(1)
    }

    /// The usable updates, in the order they came, and everyone else with a reason. Cost: two passes over each.
    #[must_use]
    pub fn judge<'a>(&self, call: &Call<'_>, uploads: &'a [Upload]) -> (Vec<&'a Upload>, Vec<LeftOut>) {
        let mut usable: Vec<&Upload> = Vec::with_capacity(uploads.len());
        let mut left_out = Vec::new();
        for upload in uploads {
            let again = usable.iter().any(|earlier| earlier.client == upload.client);
            let objection = if again {
                Some((Exclusion::Duplicate, "it had sent an update before; the first counts".to_owned()))
            } else {
                self.objection(call, upload)
            };
            match objection {
                Some((kind, reason)) => left_out.push(LeftOut::new(upload.client, kind, reason)),
                None => usable.push(upload),
            }
        }
        if self.compare && self.largest > 0.0 {
            self.refuse_outliers(call, &mut usable, &mut left_out);
        }
        (usable, left_out)
    }

    /// Why an update cannot be used, seen alone.
    fn objection(&self, call: &Call<'_>, upload: &Upload) -> Option<(Exclusion, String)> {
        if call.participants.binary_search(&upload.client).is_err() {
            return Some((Exclusion::Uninvited, "it was not asked for an update".to_owned()));
        }
        if upload.round != call.round {
            return Some((Exclusion::Stale, format!("its update is for round {}", upload.round)));
        }
        let size = call.shared.values.len();
        if upload.shared.len() != size {
            let reason = format!("it sent {} values, expected {size}", upload.shared.len());
            return Some((Exclusion::WrongShape, reason));
        }
        if !within(&upload.shared, MOST_VALUE) {
            let bad = |value: &f32| value.is_nan() || value.abs() > MOST_VALUE;
            let found = upload.shared.iter().enumerate().find(|(_, value)| bad(value));
            return found.map(|(index, value)| {
                let kind = if value.is_finite() { Exclusion::TooLarge } else { Exclusion::NotFinite };
                (kind, format!("value {index} of its update is {value}"))
            });
        }
        if upload.loss.is_some_and(|loss| !loss.is_finite()) {
            return Some((Exclusion::NotFinite, "its training loss is not finite".to_owned()));
        }
        if !(1..=MOST_SAMPLES).contains(&upload.samples) {
            return Some((
                Exclusion::BadSamples,
                format!("it says it has {} training samples", upload.samples),
            ));
        }
        let bad = |reason| (Exclusion::BadVariance, reason);
        match &upload.spread {
            Some(spread) if call.wants_spread => {
                spread.objection(size).map(bad).or_else(|| self.wide(call.shared, upload))
            }
            None if call.wants_spread => Some(bad("it sent no variances".to_owned())),
            Some(_) => Some(bad("it sent variances that nobody asked for".to_owned())),
            None => None,
        }
    }

    /// A variance that no round of training explains: data narrows a distribution.
    fn wide(&self, shared: &Shared, upload: &Upload) -> Option<(Exclusion, String)> {
        let (Some(before), Some(spread)) = (&shared.variance, &upload.spread) else { return None };
        let factor = self.largest * self.largest;
        let wide =
            |&(index, variance): &(usize, f32)| f64::from(variance) > factor * f64::from(before[index]);
        let (index, variance) = spread.pairs().find(|pair| self.largest > 0.0 && wide(pair))?;
        let reason =
            format!("the variance it sent of parameter {index} is {variance}, and was {}", before[index]);
        Some((Exclusion::TooLarge, reason))
    }

    /// Takes out updates that are much farther from the server's values than the median one (of an even number: the
    /// nearer of the two in the middle, so that one of two can be refused).
    fn refuse_outliers(&self, call: &Call<'_>, usable: &mut Vec<&Upload>, left_out: &mut Vec<LeftOut>) {
        let norms: Vec<f64> =
            usable.iter().map(|upload| distance(&upload.shared, &call.shared.values)).collect();
        let mut sorted = norms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let Some(&median) = sorted.get(sorted.len().saturating_sub(1) / 2) else { return };
        // Where the typical update is none at all there is no scale to judge by.
        let most = if median > 0.0 { self.largest * median } else { f64::INFINITY };
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
