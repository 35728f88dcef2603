//! Random streams keyed by *(run seed, purpose, client, round)*.
//!
//! Every random draw of a run comes from a stream whose key says what the draw is for. Nothing depends on
//! the order in which clients happen to be processed, so a run gives the same bits for any number of
//! threads, and a client that is trained alone (on a Flower node, or after a crash) draws what it would have
//! drawn in the whole simulation.
//!
//! The generator is `ChaCha8`, whose output is specified and equal on every platform. The four words of the
//! key *are* its 256-bit seed, so two different keys can never collide.
//!
//! What must not be guessed (the draws of differential privacy) comes from a [`SecretKey`] instead.
//!
//! ```
//! use fedsi_random::{Purpose, Streams};
//! use rand::RngExt as _;
//!
//! let streams = Streams::new(7);
//! let a: u64 = streams.stream(Purpose::Batches, 3, 12).random();
//! let b: u64 = streams.stream(Purpose::Batches, 3, 12).random();
//! let c: u64 = streams.stream(Purpose::Batches, 4, 12).random();
//! assert_eq!(a, b);
//! assert_ne!(a, c);
//! ```

mod secret;

use rand::SeedableRng as _;
pub use rand_chacha::{ChaCha8Rng, ChaCha20Rng};
pub use secret::{NoEntropy, SecretKey};

/// The `client` word of a draw that belongs to no client.
pub const SERVER: u64 = u64::MAX;

/// What a stream of random numbers is for.
///
/// The numbers are part of the definition of a run: never renumber, only append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Initial parameters of the network.
    Initialisation = 1,
    /// Which clients take part in a round; with privacy from a secret key.
    Participants = 2,
    /// The order of a client's samples in its local epochs of a round.
    Batches = 3,
    /// The order of a client's samples while it personalises.
    Tuning = 4,
    /// Which pooled samples go to which client.
    Partition = 5,
    /// The built-in digits: one stream per client, the third word being the image's index.
    Digits = 6,
    /// Which of a client's training samples are held out for validation.
    Validation = 7,
    /// Which parameters of a client have a distribution, where the rule is random.
    Selection = 8,
    /// Draws from a client's predictive distribution.
    Prediction = 9,
    /// Which of a client's training samples are set aside until its prior variance is chosen.
    Calibration = 10,
    /// Which parameters of a client's personal model have a distribution, where the rule is random.
    PersonalSelection = 11,
    /// A client's parameters where it has never taken part, from their prior.
    PriorDraws = 12,
    /// Whether and how a participant fails in a round, where that is simulated.
    Faults = 13,
    /// The noise on a round's aggregate that hides any one client, from a secret key.
    Privacy = 14,
    /// How a client's images are changed on purpose, to see what its model makes of them: one stream an image.
    Corruption = 15,
    /// Which seeds and clients statistics count how often: of no run, so numbered apart.
    Resampling = 1000,
}

/// The source of all streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// All streams of the run with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The run's seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream for `purpose`, of `client` ([`SERVER`] where there is none), in `round`. Costs a 32-byte copy.
    #[must_use]
    pub fn stream(&self, purpose: Purpose, client: u64, round: u64) -> ChaCha8Rng {
        let mut key = [0_u8; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([self.seed, purpose as u64, client, round]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt as _;

    fn first(seed: u64, purpose: Purpose, client: u64, round: u64) -> u64 {
        Streams::new(seed).stream(purpose, client, round).random()
    }

    #[test]
    fn every_word_of_the_key_matters() {
        let base = first(1, Purpose::Batches, 2, 3);
        assert_ne!(base, first(9, Purpose::Batches, 2, 3), "seed");
        assert_ne!(base, first(1, Purpose::Tuning, 2, 3), "purpose");
        assert_ne!(base, first(1, Purpose::Batches, 9, 3), "client");
        assert_ne!(base, first(1, Purpose::Batches, 2, 9), "round");
    }

    /// Saved runs rely on these streams: a change here silently changes every published figure.
    #[test]
    fn streams_are_pinned() {
        assert_eq!(first(1, Purpose::Initialisation, SERVER, 0), 13_565_576_906_885_620_086);
    }
}
