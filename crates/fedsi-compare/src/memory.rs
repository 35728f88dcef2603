//! How many runs fit into the memory that is free.

use std::fs;

/// How many runs of this size fit into the memory that is free, with a fifth of it left alone; at least 1. Where the
/// system does not report it: no limit.
pub(crate) fn runs_that_fit(bytes: u64) -> usize {
    let Some(free) = free_memory() else { return usize::MAX };
    usize::try_from((free / 5 * 4) / bytes.max(1)).unwrap_or(usize::MAX).max(1)
}

/// Memory that can be had: of the machine, and within the limit of a container.
fn free_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(limit.map_or(machine, |(most, used)| machine.min(most.saturating_sub(used))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_always_fits() {
        assert_eq!(runs_that_fit(u64::MAX), 1);
        assert!(runs_that_fit(1) > 1);
    }
}
