#![no_main]
//! TOML configs: parsed, layered and checked.
use fedsi_fl::config::{Overrides, resolve};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(layer) = Overrides::from_text("fuzz", text) {
        let _ = resolve(&[layer]).map(|config| config.check());
    }
});
