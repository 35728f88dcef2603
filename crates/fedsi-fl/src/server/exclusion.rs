//! Who was left out of a round, and why: for people (a sentence) and for programs (a kind).

use serde::{Deserialize, Serialize};

/// A participant whose update was not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Who.
    pub client: usize,
    /// The kind of reason.
    #[serde(default)]
    pub kind: Exclusion,
    /// Why, in words.
    pub reason: String,
}

/// Kinds of reasons to leave an update out.
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
    /// Its message cannot be read.
    Unreadable,
    /// It failed for another reason, which it gave.
    Failed,
    /// Its site has lost what it kept: it starts anew in its next round.
    LostState,
    /// It is not a participant of the round.
    Uninvited,
    /// Its update is for another round.
    Stale,
    /// It had answered before; the first answer counts.
    Duplicate,
    /// It sent more or fewer values than there are.
    WrongShape,
    /// It sent a value that is not finite.
    NotFinite,
    /// Its update is far larger than the others.
    TooLarge,
    /// It sent variances that are none, or not those that were asked for.
    BadVariance,
    /// It reports no training samples, or more than 2^40.
    BadSamples,
}

impl Exclusion {
    /// Whether another round may well go better. What is not finite comes from training that diverges, and it would
    /// again; so would a failure that a client names.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        !matches!(self, Self::Diverged | Self::NotFinite | Self::Failed)
    }

    /// As it is written in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Diverged => "diverged",
            Self::Dropped => "dropped",
            Self::Late => "late",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
            Self::LostState => "lost-state",
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
    #[must_use]
    pub fn new(client: usize, kind: Exclusion, reason: impl Into<String>) -> Self {
        Self { client, kind, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_named() {
        for kind in [
            Exclusion::Diverged,
            Exclusion::LostState,
            Exclusion::WrongShape,
            Exclusion::BadSamples,
            Exclusion::TooLarge,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
