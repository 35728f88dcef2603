//! Memory that this process can still have, as the system tells.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that can be had: of the machine (swap included), within the limits of the control groups that this process is
/// in (a container, a batch job) and within its own limit of address space. None where the system does not tell.
#[must_use]
pub fn available() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = of_machine(&read(Path::new("/proc/meminfo"))?);
    let groups = read(Path::new("/proc/self/cgroup")).and_then(|text| of_groups(&text, &read));
    let own = read(Path::new("/proc/self/limits"))
        .zip(read(Path::new("/proc/self/status")))
        .and_then(|(limits, status)| of_address_space(&limits, &status));
    [machine, groups, own].into_iter().flatten().min()
}

/// Of the whole machine: what is free or can be freed at once, and free swap.
fn of_machine(meminfo: &str) -> Option<u64> {
    Some(kibibytes(meminfo, "MemAvailable:")?.saturating_add(kibibytes(meminfo, "SwapFree:").unwrap_or(0)))
}

/// What this process may still map.
fn of_address_space(limits: &str, status: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // The word `unlimited` is no number.
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kibibytes(status, "VmSize:")?))
}

/// The least that a control group around this process leaves: its own, or one of those it lies in.
fn of_groups(own: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let left = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (kinds, path) = (parts.nth(1)?, parts.next()?);
        // Version 2 has one hierarchy, without a name; version 1 one for each kind of resource.
        let (root, names) = match kinds {
            "" => ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
            _ if kinds.split(',').any(|kind| kind == "memory") => {
                ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"])
            }
            _ => return None,
        };
        let folder = PathBuf::from(root).join(path.trim_start_matches('/'));
        let groups = folder.ancestors().take_while(|group| group.starts_with(root));
        groups.filter_map(|group| of_group(group, names, read)).min()
    });
    left.min()
}

fn of_group(group: &Path, names: [&str; 2], read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let number = |name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let (limit, used) = (number(names[0])?, number(names[1])?);
    // Pages of files count as used, and make room when something else needs it.
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let of = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let files = ["inactive_file ", "active_file "].into_iter().filter_map(of).fold(0, u64::saturating_add);
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

/// The number of bytes after a name, in a file of the system that counts KiB.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn files(all: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> {
        let all: BTreeMap<PathBuf, String> =
            all.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        move |path| all.get(path).cloned()
    }

    #[test]
    fn the_machine_counts_free_swap() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:    4 kB\nSwapFree: 2 kB\n";
        assert_eq!(of_machine(meminfo), Some(6 * 1024));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn a_group_above_may_be_the_narrowest_and_files_make_room() {
        let read = files(&[
            ("/sys/fs/cgroup/memory.max", "max"),
            ("/sys/fs/cgroup/job/memory.max", "1000\n"),
            ("/sys/fs/cgroup/job/memory.current", "900"),
            ("/sys/fs/cgroup/job/memory.stat", "anon 200\ninactive_file 600\nactive_file 100\n"),
            ("/sys/fs/cgroup/job/step/memory.max", "5000"),
            ("/sys/fs/cgroup/job/step/memory.current", "900"),
        ]);
        assert_eq!(of_groups("0::/job/step\n", &read), Some(800));
        assert_eq!(of_groups("0::/\n", &read), None, "no limit");
    }

    #[test]
    fn the_first_version_of_groups_is_known() {
        let read = files(&[
            ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000"),
            ("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "300"),
        ]);
        assert_eq!(of_groups("3:cpu:/other\n4:memory:/box\n", &read), Some(700));
    }

    #[test]
    fn a_limit_of_address_space_counts() {
        let status = "VmSize:\t 3 kB\n";
        let limits =
            |value: &str| format!("Limit Soft Hard\nMax address space         {value}  unlimited bytes\n");
        assert_eq!(of_address_space(&limits("10240"), status), Some(7 * 1024));
        assert_eq!(of_address_space(&limits("unlimited"), status), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
