//! Which kind of CPU computes, as far as it decides the last bits of results.

const AVX_512: &str = "x86-64 AVX-512";
const AVX2: &str = "x86-64 AVX2+FMA";

/// The widest instructions of this machine that the layers and the matrix products are compiled for: a short text that
/// stays the same for the same kind of CPU. A new kind gets a new text.
///
/// Two kinds may round differently: [`same_bits`] says which do not.
#[must_use]
pub fn cpu_kind() -> &'static str {
    match pulp::Arch::new() {
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V4(_) => AVX_512,
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V3(_) => AVX2,
        #[cfg(target_arch = "aarch64")]
        pulp::Arch::Neon(_) => "aarch64 NEON",
        _ if cfg!(target_arch = "x86_64") => "x86-64",
        _ => std::env::consts::ARCH,
    }
}

/// Whether two [kinds of CPU](cpu_kind) give the same bits: the same kind, or AVX2 and AVX-512, which multiply and add in
/// one rounding both and sum in the same order.
#[must_use]
pub fn same_bits(a: &str, b: &str) -> bool {
    a == b || [a, b].iter().all(|kind| [AVX2, AVX_512].contains(kind))
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_kinds_that_round_alike_give_the_same_bits() {
        let same = super::same_bits;
        assert!(same("x86-64 AVX-512", "x86-64 AVX2+FMA") && same("aarch64 NEON", "aarch64 NEON"));
        assert!(!same("x86-64", "x86-64 AVX2+FMA") && !same("aarch64 NEON", "x86-64 AVX-512"));
    }

    #[test]
    fn it_is_that_of_this_machine() {
        let found = super::cpu_kind();
        assert_eq!(found, super::cpu_kind());
        #[cfg(target_arch = "x86_64")]
        {
            let has_all = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512cd")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl");
            assert_eq!(found == super::AVX_512, has_all, "{found}");
        }
    }
}
