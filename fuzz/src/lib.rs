//! Fuzz targets for everything that reads bytes: whatever the bytes are, a reader answers or refuses, and never panics.
//!
//! [`TARGETS`] lists them. libFuzzer runs one through `fuzz_targets/NAME.rs`; the binary `smoke` runs all of them for some
//! seconds on any toolchain, on mutations of each target's seeds.

mod mutate;
mod scratch;
mod seeds;
mod smoke;
mod targets;

use std::process::ExitCode;

pub use scratch::{ScratchError, clean_up};
pub use smoke::smoke;

/// One reader, or several that read the same kind of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Hands the bytes to the readers. Whether any of them read the bytes whole.
    pub read: fn(&[u8]) -> Result<bool, ScratchError>,
    /// Inputs that are read, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 8] = [
    Target { name: "messages", read: targets::messages, seeds: seeds::messages },
    Target { name: "checkpoints", read: targets::checkpoints, seeds: seeds::checkpoints },
    Target { name: "models", read: targets::models, seeds: seeds::models },
    Target { name: "configs", read: targets::configs, seeds: seeds::configs },
    Target { name: "tables", read: targets::tables, seeds: seeds::tables },
    Target { name: "sites", read: targets::sites, seeds: seeds::sites },
    Target { name: "arrays", read: targets::arrays, seeds: seeds::arrays },
    Target { name: "images", read: targets::images, seeds: seeds::images },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// One input of libFuzzer.
pub fn libfuzzer(name: &str, bytes: &[u8]) {
    if let Some(target) = target(name) {
        // A full disk is no finding.
        let _ = (target.read)(bytes);
    }
}

/// What a target's own binary says where it was not built by cargo-fuzz.
#[must_use]
pub fn needs_libfuzzer(name: &str) -> ExitCode {
    eprintln!(
        "this target needs libFuzzer: `cargo +nightly fuzz run {name}`; without it: \
         `cargo run -p fedsi-fuzz --bin smoke -- {name}`"
    );
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that is refused fuzzes nothing but the first check.
    #[test]
    fn every_seed_is_read() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{} has no seeds", target.name);
            for (index, seed) in seeds.iter().enumerate() {
                let read = (target.read)(seed).unwrap();
                assert!(read, "{}: seed {index} is refused; see fuzz/src/seeds.rs", target.name);
            }
        }
    }
}
