//! Targets without libFuzzer: mutations of their seeds, from a seeded generator.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Target;
use crate::mutate::mutated;

/// Runs a target for this long, and at least once. Whether it stood every input: the first that makes it panic is saved in
/// `artifacts` and named on stderr.
///
/// # Errors
/// A target without seeds, or a file that cannot be written.
pub fn smoke(target: Target, time: Duration, seed: u64, artifacts: &Path) -> anyhow::Result<bool> {
    let seeds = (target.seeds)();
    if seeds.is_empty() {
        bail!("{}: it has no seeds", target.name);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let started = Instant::now();
    let (mut inputs, mut read) = (0_u64, 0_u64);
    while inputs == 0 || started.elapsed() < time {
        let [one, other] = [0; 2].map(|_: i32| &seeds[rng.random_range(0..seeds.len())]);
        let bytes = mutated(one, other, &mut rng);
        inputs += 1;
        match catch_unwind(|| (target.read)(&bytes)) {
            Ok(outcome) => read += u64::from(outcome.context("the input cannot be handed over")?),
            Err(_) => {
                std::fs::create_dir_all(artifacts)?;
                let path = artifacts.join(format!("{}-{seed}-{inputs}.bin", target.name));
                std::fs::write(&path, &bytes)?;
                eprintln!(
                    "{}: panicked on input {inputs}, saved as {path}; again: \
                     cargo run -p fedsi-fuzz --bin smoke -- {} --input {path}",
                    target.name,
                    target.name,
                    path = path.display(),
                );
                return Ok(false);
            }
        }
    }
    println!("{:<12} {inputs} inputs, {read} of them read, no panic", target.name);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_and_its_input_saved() {
        let scratch = tempfile::tempdir().unwrap();
        let panics = Target {
            name: "panics",
            read: |bytes| {
                assert!(bytes.len() > 3, "on purpose");
                Ok(true)
            },
            seeds: || vec![b"seed".to_vec()],
        };
        assert!(!smoke(panics, Duration::from_secs(60), 1, scratch.path()).unwrap());
        let saved: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
        assert_eq!(saved.len(), 1);
        let bytes = std::fs::read(saved[0].as_ref().unwrap().path()).unwrap();
        assert!(bytes.len() <= 3, "the input that made it panic");

        let stands = Target { read: |_| Ok(true), ..panics };
        assert!(smoke(stands, Duration::ZERO, 1, scratch.path()).unwrap());
        let empty = Target { seeds: Vec::new, ..panics };
        assert!(smoke(empty, Duration::ZERO, 1, scratch.path()).is_err());
    }
}
