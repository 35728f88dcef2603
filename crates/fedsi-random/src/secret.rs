//! Streams that nobody can guess: the draws of differential privacy.

use std::fmt;

use rand::SeedableRng as _;
use rand_chacha::ChaCha20Rng;

use crate::Purpose;

/// A key of 32 bytes that is not to be published: whoever has it can repeat every draw made from it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; 32]);

/// The system's generator gave no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEntropy(String);

impl fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system's random generator gave no key: {}", self.0)
    }
}

impl std::error::Error for NoEntropy {}

impl SecretKey {
    /// A key that nobody has seen, from the system's generator.
    ///
    /// # Errors
    /// A system without a generator.
    pub fn generate() -> Result<Self, NoEntropy> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| NoEntropy(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// A key that was saved, or one for a test.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key itself, to be saved where only its owner reads.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The stream for `purpose` in `round` (below 2^56): `ChaCha20` under this key, with both as its nonce.
    #[must_use]
    pub fn stream(&self, purpose: Purpose, round: u64) -> ChaCha20Rng {
        let mut rng = ChaCha20Rng::from_seed(self.0);
        rng.set_stream((purpose as u64) << 56 | round);
        rng
    }
}

/// Does not print the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt as _;

    #[test]
    fn key_purpose_and_round_each_give_another_stream() {
        let first = |key: &SecretKey, purpose, round| key.stream(purpose, round).random::<u64>();
        let (one, two) = (SecretKey::from_bytes([1; 32]), SecretKey::from_bytes([2; 32]));
        let base = first(&one, Purpose::Privacy, 3);
        assert_eq!(base, first(&one.clone(), Purpose::Privacy, 3));
        assert_ne!(base, first(&two, Purpose::Privacy, 3), "key");
        assert_ne!(base, first(&one, Purpose::Participants, 3), "purpose");
        assert_ne!(base, first(&one, Purpose::Privacy, 4), "round");
    }

    #[test]
    fn generated_keys_differ_and_are_not_printed() {
        let (one, two) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        assert_ne!(one, two);
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
    }

    /// Checkpoints rely on these streams.
    #[test]
    fn streams_are_pinned() {
        let mut rng = SecretKey::from_bytes([7; 32]).stream(Purpose::Privacy, 1);
        assert_eq!(rng.random::<u64>(), 9_318_811_830_800_238_231);
    }
}
