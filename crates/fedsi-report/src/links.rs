//! Addresses on a page: relative paths below the page's own folder, and nothing else.

use std::fmt::Write as _;
use std::path::{Component, Path};

/// The parts of a path that stays below where it begins: no root, no `..`, not empty. None for any other, and for one
/// that is not UTF-8.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Option<Vec<&str>> = Path::new(path)
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    parts.filter(|parts| !parts.is_empty())
}

/// Whether a path that a file names stays below the folder it is taken from.
pub(crate) fn is_below(path: &str) -> bool {
    parts(path).is_some()
}

/// The address of `page` in a folder beside this page, every letter but the plainest percent-encoded: it has no scheme,
/// no host and no `..`, whatever the folder is called. None where the folder is not below this page's.
pub(crate) fn beside(folder: &str, page: &str) -> Option<String> {
    let mut address = String::new();
    for part in parts(folder)? {
        for &byte in part.as_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                address.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(address, "%{byte:02X}");
            }
        }
        address.push('/');
    }
    address.push_str(page);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_relative_paths_whatever_a_folder_is_called() {
        let link = |folder: &str| beside(folder, "report.html");
        assert_eq!(link("fedsi-s1").as_deref(), Some("fedsi-s1/report.html"));
        assert_eq!(link("a/b c").as_deref(), Some("a/b%20c/report.html"));
        assert_eq!(link("javascript:alert(1)//").as_deref(), Some("javascript%3Aalert%281%29/report.html"));
        assert_eq!(link("data:text/html,x").as_deref(), Some("data%3Atext/html%2Cx/report.html"));
        assert_eq!(
            link("a\"><script>?#%\n\\").as_deref(),
            Some("a%22%3E%3Cscript%3E%3F%23%25%0A%5C/report.html")
        );
        for outside in ["", "/etc", "..", "a/../../b", "//host/x", "./a"] {
            assert_eq!(link(outside), None, "{outside}");
            assert!(!is_below(outside));
        }
    }
}
