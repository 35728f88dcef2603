//! libFuzzer's way into the target `sites`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fedsi_fuzz::libfuzzer("sites", bytes);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    fedsi_fuzz::needs_libfuzzer("sites")
}
