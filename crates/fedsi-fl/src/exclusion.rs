//! Who was left out of a round, and why: for people (a sentence) and for programs (a kind).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::RoundRecord;

/// A participant whose update was not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Who.
    pub client: usize,
    /// What kind of trouble.
    #[serde(default)]
    pub kind: Exclusion,
    /// Why, in words.
    pub reason: String,
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// It said itself that its training failed.
    #[default]
    Diverged,
    /// It never answered.
    Dropped,
    /// It answered past the deadline.
    Late,
    /// Its message is no message.
    Unreadable,
    /// It was not asked.
    Uninvited,
    /// Its update is for another round.
    Stale,
    /// It had answered before; the first answer counts.
    Duplicate,
    /// It sent more or fewer values than there are.
    WrongShape,
    /// It sent something that is no number.
    NotFinite,
    /// Its update is absurdly large.
    TooLarge,
    /// It sent variances that are none, or not those that were asked for.
    BadVariance,
    /// No training samples stand behind its update, or absurdly many.
    BadSamples,
}

impl Exclusion {
    /// Whether another round may well go better. What is not finite comes from training that diverges, and it would
    /// again.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        !matches!(self, Self::Diverged | Self::NotFinite)
    }

    /// As it is written in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Diverged => "diverged",
            Self::Dropped => "dropped",
            Self::Late => "late",
            Self::Unreadable => "unreadable",
            Self::Uninvited => "uninvited",
            Self::Stale => "stale",
            Self::Duplicate => "duplicate",
            Self::WrongShape => "wrong-shape",
            Self::NotFinite => "not-finite",
            Self::TooLarge => "too-large",
            Self::BadVariance => "bad-variance",
            Self::BadSamples => "bad-samples",
        }
    }
}

impl LeftOut {
    /// This client, for this reason.
    pub(crate) fn new(client: usize, kind: Exclusion, reason: impl Into<String>) -> Self {
        Self { client, kind, reason: reason.into() }
    }
}

/// The trouble of all rounds, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Messages that were not used, or never came, by kind.
    pub left_out: BTreeMap<Exclusion, u64>,
    /// Rounds in which the server kept what it had.
    pub skipped_rounds: u64,
}

impl Tally {
    /// Counts one more round.
    pub fn add(&mut self, record: &RoundRecord) {
        for out in &record.left_out {
            *self.left_out.entry(out.kind).or_default() += 1;
        }
        self.skipped_rounds += u64::from(record.skipped);
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.skipped_rounds == 0
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.left_out.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_named() {
        for kind in [Exclusion::Diverged, Exclusion::WrongShape, Exclusion::BadSamples, Exclusion::TooLarge] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        let left_out = BTreeMap::from([(Exclusion::TooLarge, 2), (Exclusion::Late, 3)]);
        let tally = Tally { left_out, skipped_rounds: 1 };
        let text = serde_json::to_string(&tally).unwrap();
        assert_eq!(text, r#"{"left_out":{"late":3,"too-large":2},"skipped_rounds":1}"#);
        assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), tally);
        assert_eq!((tally.total(), tally.is_empty(), Tally::default().is_empty()), (5, false, true));
    }
}
